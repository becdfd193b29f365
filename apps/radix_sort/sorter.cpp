#include "sorter.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <new>

#include "digits.hpp"

namespace radix_sort {
namespace {

/// Number of keys that the sort moves between two calls of Request::test; moving them takes some
/// tens of microseconds.
constexpr std::size_t kSliceKeys = 32768;

/// A stopwatch that adds the time since its last use to the time of a phase.
class Watch {
 public:
  explicit Watch(PhaseTimes& times) : times_(&times) {}
  void end(Phase phase) {
    const auto now = std::chrono::steady_clock::now();
    (*times_)[static_cast<std::size_t>(phase)] += now - last_;
    last_ = now;
  }

 private:
  PhaseTimes* times_;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

}  // namespace

template <typename Key>
Sorter<Key>::Sorter(tutti::Communicator& communicator, std::vector<std::uint64_t> keys_of_rank,
                    const SorterOptions& options)
    : options_(options),
      passes_(passes_of(options.radix, 8 * sizeof(Key))),
      routes_(std::move(keys_of_rank), tutti::index(communicator.rank())),
      exchange_(communicator, options.piece_bytes, options.alltoall),
      counts_(options.radix),
      all_counts_(std::size_t{options.radix} * communicator.size()),
      starts_(options.radix),
      next_(communicator.size()),
      allgather_times_(passes_) {}

template <typename Key>
tutti::Result<std::unique_ptr<Sorter<Key>>> Sorter<Key>::create(
    tutti::Communicator& communicator, std::vector<std::uint64_t> keys_of_rank,
    const SorterOptions& options) {
  std::unique_ptr<Sorter> sorter;
  const std::uint64_t mine = keys_of_rank[tutti::index(communicator.rank())];
  try {
    sorter.reset(new Sorter(communicator, std::move(keys_of_rank), options));
    sorter->ordered_.resize(mine);
    sorter->arrived_.resize(mine);
  } catch (const std::bad_alloc&) {
    return tutti::Status(tutti::Code::resource_exhausted,
                         fmt::format("not enough memory for {} keys: sort fewer keys", mine));
  }
  if (tutti::Status status = sorter->prepare(communicator); !status) return status;
  return sorter;
}

template <typename Key>
tutti::Status Sorter<Key>::prepare(tutti::Communicator& communicator) {
  for (const Variant variant : {Variant::blocking, Variant::overlapped}) {
    tutti::CollectiveCall call{
        .collective = tutti::Collective::allgather,
        .send = std::as_bytes(std::span(counts_)),
        .receive = std::as_writable_bytes(std::span(all_counts_)),
        .options = {.algorithm = tutti::Algorithm(options_.allgather),
                    .will_wait =
                        variant == Variant::blocking || options_.progress == Progress::test},
    };
    auto prepared = communicator.prepare(call);
    if (!prepared) return prepared.status();
    allgather_[static_cast<std::size_t>(variant)] = std::move(*prepared);
  }
  // The Alltoall is prepared here only to detect an unknown algorithm before the sort begins.
  const tutti::CollectiveCall exchange{
      .collective = tutti::Collective::alltoall,
      .options = {.algorithm = tutti::Algorithm(options_.alltoall)}};
  return communicator.prepare(exchange).status();
}

template <typename Key>
tutti::Status Sorter<Key>::sort(std::vector<Key>& keys, Variant variant) {
  times_.fill({});
  for (std::uint32_t pass = 0; pass < passes_; ++pass) {
    const auto before = times_[static_cast<std::size_t>(Phase::allgather)];
    if (tutti::Status status = run_pass(keys, pass, variant); !status) return status;
    allgather_times_[pass] = times_[static_cast<std::size_t>(Phase::allgather)] - before;
  }
  return {};
}

template <typename Key>
tutti::Status Sorter<Key>::run_pass(std::vector<Key>& keys, std::uint32_t pass, Variant variant) {
  Watch watch(times_);
  count(keys, pass);
  watch.end(Phase::count);

  auto histograms = allgather_[static_cast<std::size_t>(variant)]->start();
  if (!histograms) return histograms.status();
  tutti::Request* meanwhile = nullptr;
  if (variant == Variant::blocking) {
    if (tutti::Status status = histograms->wait(); !status) return status;
  } else if (options_.progress == Progress::test) {
    meanwhile = &*histograms;
    meanwhile->test();  // test() sends the first chunks before the local work begins
  }
  watch.end(Phase::allgather);
  order_locally(keys, pass, meanwhile);
  watch.end(Phase::local);
  if (variant == Variant::overlapped) {
    if (tutti::Status status = histograms->wait(); !status) return status;
    watch.end(Phase::allgather);
  }

  routes_.set(all_counts_, options_.radix);
  watch.end(Phase::routes);
  tutti::Status status = exchange_.run(routes_, std::as_bytes(std::span(ordered_)),
                                       std::as_writable_bytes(std::span(arrived_)), sizeof(Key));
  if (!status) return status;
  watch.end(Phase::exchange);
  place(keys);
  watch.end(Phase::place);
  return {};
}

template <typename Key>
void Sorter<Key>::count(std::span<const Key> keys, std::uint32_t pass) {
  std::fill(counts_.begin(), counts_.end(), 0);
  with_digit<Key>(options_.radix, pass, [&](const auto& digit) {
    for (const Key key : keys) ++counts_[digit(key)];
  });
}

template <typename Key>
void Sorter<Key>::order_locally(std::span<const Key> keys, std::uint32_t pass,
                                tutti::Request* meanwhile) {
  std::uint64_t start = 0;
  for (std::size_t bucket = 0; bucket < counts_.size(); ++bucket) {
    starts_[bucket] = start;
    start += counts_[bucket];
  }
  with_digit<Key>(options_.radix, pass, [&](const auto& digit) {
    for (auto rest = keys; !rest.empty();) {
      const std::size_t slice = std::min(rest.size(), kSliceKeys);
      for (const Key key : rest.first(slice)) ordered_[starts_[digit(key)]++] = key;
      rest = rest.subspan(slice);
      if (meanwhile != nullptr && !rest.empty() && meanwhile->test()) meanwhile = nullptr;
    }
  });
}

template <typename Key>
void Sorter<Key>::place(std::span<Key> keys) {
  std::uint64_t begin = 0;
  for (std::uint32_t source = 0; source < routes_.ranks(); ++source) {
    next_[source] = begin;
    begin += routes_.part(source, routes_.me());
  }
  auto to = keys.begin();
  for (const KeyRun& run : routes_.key_runs()) {
    const auto from = arrived_.begin() + static_cast<std::ptrdiff_t>(next_[run.source]);
    to = std::copy_n(from, run.keys, to);
    next_[run.source] += run.keys;
  }
}

template class Sorter<std::uint32_t>;
template class Sorter<std::uint64_t>;

}  // namespace radix_sort
