#include "measure.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <numeric>
#include <utility>

#include "check.hpp"
#include "exchange.hpp"

namespace radix_sort {
namespace {

template <typename Value>
Value median(std::vector<Value> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::vector<std::uint64_t> shares(const Options& options, std::uint64_t keys, std::uint32_t ranks) {
  std::vector<std::uint64_t> list(ranks, keys);
  if (!options.taper || ranks == 1) return list;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) list[rank] = keys * rank / (ranks - 1);
  return list;
}

/// Draws the keys of a rank. A key depends only on the seed, the rank and the position, so that a
/// job with more ranks has the same keys on its first ranks.
template <typename Key>
std::vector<Key> draw(const Options& options, std::uint32_t rank, std::uint64_t count) {
  std::vector<Key> keys(count);
  const std::uint64_t stream = mixed(mixed(options.seed + 1) + rank);
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t word = mixed(stream + mixed(i + 1));
    keys[i] = static_cast<Key>(word);
    if (options.keys == Keys::few) keys[i] = static_cast<Key>(mixed(word % 3 + 1));
    if (options.keys == Keys::equal) keys[i] = static_cast<Key>(0x5bd1'e995u);
  }
  return keys;
}

/// Damages the sorted keys on purpose, to test the check: reverses the order of the ranks' blocks,
/// which must have equal sizes.
template <typename Key>
tutti::Status reverse_ranks(tutti::Communicator& communicator, std::vector<Key>& keys) {
  std::vector<Key> all(keys.size() * communicator.size());
  tutti::Status status = finish(communicator.allgather(std::as_bytes(std::span(keys)),
                                                       std::as_writable_bytes(std::span(all))));
  const std::uint64_t other = communicator.size() - 1 - tutti::index(communicator.rank());
  std::copy_n(all.begin() + static_cast<std::ptrdiff_t>(other * keys.size()), keys.size(),
              keys.begin());
  return status;
}

template <typename Key>
tutti::Status spoil(tutti::Communicator& communicator, Damage damage, std::vector<Key>& keys) {
  if (damage == Damage::ranks) return reverse_ranks(communicator, keys);
  if (tutti::index(communicator.rank()) + 1 != communicator.size()) return {};
  const auto at = std::adjacent_find(keys.begin(), keys.end(), std::not_equal_to<>());
  if (at == keys.end()) return {};
  if (damage == Damage::order) std::iter_swap(at, at + 1);
  if (damage == Damage::key) *at = *(at + 1);
  return {};
}

/// The number of collectives that this rank has run hierarchically so far.
std::uint64_t hierarchical_calls(const tutti::Communicator& communicator) {
  for (const auto& [name, value] : communicator.counters()) {
    if (name == "hierarchical_calls") return value;
  }
  return 0;
}

/// Measures one row of the report, for keys of one type.
template <typename Key>
class Measurement {
 public:
  Measurement(tutti::Communicator& communicator, const Options& options)
      : communicator_(&communicator), options_(&options) {}

  tutti::Result<Row> run(std::uint32_t radix, std::uint64_t keys_per_rank) {
    row_.radix = radix;
    row_.keys_per_rank = keys_per_rank;
    if (tutti::Status status = agree(set_up()); !status) return status;
    row_.passes = sorter_->passes();
    const int all = options_->warmup + options_->iterations;
    for (int i = 0; i < all; ++i) {
      // The two variants take turns to run first, so that neither variant profits from the order.
      const bool turned = i % 2 == 1;
      for (const Variant variant : {turned ? Variant::overlapped : Variant::blocking,
                                    turned ? Variant::blocking : Variant::overlapped}) {
        tutti::Status status = run_once(variant, i >= options_->warmup);
        if (!status) return status;
      }
    }
    const std::uint64_t sorts = kVariants * static_cast<std::uint64_t>(all);
    row_.moved_bytes = sorter_->exchange().moved_bytes() / sorts;
    row_.carried_bytes = sorter_->exchange().carried_bytes() / sorts;
    return std::move(row_);
  }

 private:
  tutti::Status set_up() {
    const std::uint32_t me = tutti::index(communicator_->rank());
    const auto share = shares(*options_, row_.keys_per_rank, communicator_->size());
    try {
      drawn_ = draw<Key>(*options_, me, share[me]);
      keys_.resize(drawn_.size());
    } catch (const std::bad_alloc&) {
      return {tutti::Code::resource_exhausted,
              fmt::format("not enough memory for {} keys: use a smaller --keys", share[me])};
    }
    auto sorter = Sorter<Key>::create(*communicator_, share,
                                      {.radix = row_.radix,
                                       .piece_bytes = options_->piece_bytes,
                                       .allgather = options_->allgather,
                                       .alltoall = options_->alltoall,
                                       .progress = options_->progress});
    if (!sorter) return sorter.status();
    sorter_ = std::move(*sorter);
    before_ = fingerprint(std::span<const Key>(drawn_));
    return {};
  }

  /// Tells all ranks whether set_up() succeeded on this rank, and returns an error on every rank if
  /// it failed on any. Without this exchange the other ranks would block in their first collective.
  tutti::Status agree(tutti::Status mine) {
    const std::uint32_t able = mine.ok() ? 1 : 0;
    std::vector<std::uint32_t> all(communicator_->size());
    tutti::Status status = finish(communicator_->allgather(std::as_bytes(std::span(&able, 1)),
                                                           std::as_writable_bytes(std::span(all))));
    if (!mine) return mine;
    if (!status) return status;
    const auto unable = std::find(all.begin(), all.end(), 0u);
    if (unable == all.end()) return {};
    return {tutti::Code::peer_failed,
            fmt::format("rank {} cannot sort: see the message of that rank", unable - all.begin())};
  }

  tutti::Status run_once(Variant variant, bool counts) {
    keys_ = drawn_;
    if (tutti::Status status = finish(communicator_->barrier({.will_wait = true})); !status)
      return status;
    const std::uint64_t calls = hierarchical_calls(*communicator_);
    const auto begin = std::chrono::steady_clock::now();
    if (tutti::Status status = sorter_->sort(keys_, variant); !status) return status;
    const auto end = std::chrono::steady_clock::now();
    row_.hierarchical_calls += hierarchical_calls(*communicator_) - calls;
    if (tutti::Status status = judge(); !status) return status;
    return counts ? note(variant, end - begin) : tutti::Status();
  }

  tutti::Status judge() {
    if (options_->damage != Damage::none) {
      tutti::Status status = spoil(*communicator_, options_->damage, keys_);
      if (!status) return status;
    }
    auto verdict = check(*communicator_, std::span<const Key>(keys_), before_);
    if (!verdict) return verdict.status();
    ++row_.sorts_checked;
    if (row_.wrong.empty()) row_.wrong = verdict->text();
    return {};
  }

  /// Gathers the times of all ranks for one sort and adds them to the row.
  tutti::Status note(Variant variant, std::chrono::nanoseconds time) {
    const std::size_t passes = sorter_->passes();
    std::vector<std::int64_t> mine{time.count()};
    for (const std::chrono::nanoseconds phase : sorter_->times()) mine.push_back(phase.count());
    for (const std::chrono::nanoseconds one : sorter_->allgather_times())
      mine.push_back(one.count());
    std::vector<std::int64_t> all(mine.size() * communicator_->size());
    tutti::Status status = finish(communicator_->allgather(std::as_bytes(std::span(mine)),
                                                           std::as_writable_bytes(std::span(all))));
    if (!status) return status;
    const auto of_ranks = [&](std::size_t what) {
      std::vector<std::int64_t> values;
      for (std::size_t at = what; at < all.size(); at += mine.size()) values.push_back(all[at]);
      return values;
    };
    Timings& timings = row_.timings[static_cast<std::size_t>(variant)];
    timings.times_ns.push_back(std::ranges::max(of_ranks(0)));
    for (std::size_t p = 0; p < kPhases; ++p) {
      const auto times = of_ranks(1 + p);
      const std::int64_t sum = std::accumulate(times.begin(), times.end(), std::int64_t{0});
      timings.phases_ns[p].push_back(sum / static_cast<std::int64_t>(times.size()));
    }
    std::int64_t least = 0;
    for (std::size_t pass = 0; pass < passes; ++pass)
      least += std::ranges::min(of_ranks(1 + kPhases + pass));
    timings.least_allgather_ns.push_back(least);
    return {};
  }

  tutti::Communicator* communicator_;
  const Options* options_;
  std::unique_ptr<Sorter<Key>> sorter_;
  std::vector<Key> drawn_;
  std::vector<Key> keys_;
  Fingerprint before_;
  Row row_;
};

}  // namespace

std::int64_t Timings::median_ns() const { return median(times_ns); }
std::int64_t Timings::median_least_allgather_ns() const { return median(least_allgather_ns); }
std::int64_t Timings::median_ns(Phase phase) const {
  return median(phases_ns[static_cast<std::size_t>(phase)]);
}

double Row::ratio() const {
  const std::vector<std::int64_t>& blocking = of(Variant::blocking).times_ns;
  const std::vector<std::int64_t>& overlapped = of(Variant::overlapped).times_ns;
  std::vector<double> ratios;
  for (std::size_t i = 0; i < blocking.size(); ++i) {
    ratios.push_back(static_cast<double>(overlapped[i]) / static_cast<double>(blocking[i]));
  }
  return median(std::move(ratios));
}

tutti::Result<Row> measure(tutti::Communicator& communicator, const Options& options,
                           std::uint32_t radix, std::uint64_t keys_per_rank) {
  if (options.key_bits == 64)
    return Measurement<std::uint64_t>(communicator, options).run(radix, keys_per_rank);
  return Measurement<std::uint32_t>(communicator, options).run(radix, keys_per_rank);
}

}  // namespace radix_sort
