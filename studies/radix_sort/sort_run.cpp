#include "studies/radix_sort/sort_run.hpp"

#include <algorithm>
#include <memory>
#include <utility>

#include "base/error.hpp"

namespace tutti::simulation {

using sim::Event;
using sim::EventKind;
using sim::Picoseconds;

namespace {

constexpr EventKind kStep = EventKind{24};  // event: a rank continues; target: the rank
constexpr std::uint64_t kBytesOfCount = 4;

/// The stage of a rank within a pass of the sort.
enum class Stage : std::uint8_t {
  count,
  call,  ///< begins the Allgather, or stores the rank's counts in the host's memory (hierarchical)
  /// Hierarchical only: the leader waits for the counts of its host's ranks, then begins the
  /// Allgather.
  lead,
  local,  ///< orders a slice of the rank's keys
  test,   ///< polls the Allgather between two slices
  wait,   ///< waits for the end of the Allgather
  route,
  exchange,
  arrive,  ///< waits for the rank's new keys
  over,
};

struct Sorter {
  Stage stage = Stage::count;
  bool waiting = false;  ///< whether the rank waits for a wake-up
  std::uint32_t pass = 0;
  std::uint64_t unordered = 0;  ///< number of keys that the rank has still to order in this pass
  std::uint64_t arrived = 0;
  Picoseconds since{};  ///< instant up to which the rank's time is included in `phases`
  std::array<Picoseconds, kSortPhases> phases{};
};

/// State in the memory that the ranks of one host share.
struct Meeting {
  std::uint32_t left = 0;    ///< number of ranks that have stored their counts
  std::uint32_t shared = 0;  ///< number of Allgathers whose result the leader has shared
};

class SortRun final : public MessageSink, public RankWaker {
 public:
  explicit SortRun(const SortSpec& spec)
      : spec_(spec),
        ranks_(spec.hosts * spec.ranks_per_host),
        topology_(
            sim::Topology::single_switch(spec.hosts, {.bits_per_second = spec.bits_per_second})),
        network_(queue_, topology_, {.ranks_per_host = spec.ranks_per_host}, *this),
        copy_(spec.costs.copy_bits_per_second),
        sorters_(ranks_),
        meetings_(spec.hosts) {}

  Result<SortReport> run();

  void delivered(const NetworkMessage& message, Picoseconds now) override;
  void left(const NetworkMessage& message, Picoseconds now) override {
    if (message.keys == 0) lists_->left(message, now);
  }
  void wake(std::uint32_t rank) override { wake_at(rank, now()); }

 private:
  Status open();
  void step(std::uint32_t rank);
  void go_on(std::uint32_t rank, Stage stage, Picoseconds at);
  void wake_at(std::uint32_t rank, Picoseconds at);
  void charge(Sorter& sorter, SortPhase phase, Picoseconds until);
  void call(std::uint32_t rank);
  void lead(std::uint32_t rank);
  void begin(std::uint32_t rank);
  void order(std::uint32_t rank);
  void wait(std::uint32_t rank);
  void look_in_memory(std::uint32_t rank);
  void take_histograms(std::uint32_t rank);
  void exchange(std::uint32_t rank);
  void arrive(std::uint32_t rank);

  Picoseconds now() const { return queue_.now(); }
  std::uint64_t block_bytes() const { return spec_.radix * kBytesOfCount; }
  bool leads(std::uint32_t rank) const { return rank % spec_.ranks_per_host == 0; }
  bool has_list(std::uint32_t rank) const { return !spec_.hierarchical || leads(rank); }
  Meeting& meeting_of(std::uint32_t rank) { return meetings_[network_.host_of(rank)]; }
  Picoseconds message_time() const { return sim::from_nanoseconds(spec_.costs.host.message); }
  Picoseconds poll_time() const { return sim::from_nanoseconds(spec_.costs.host.poll); }
  Result<SortReport> report() const;

  const SortSpec& spec_;
  std::uint32_t ranks_;
  std::uint32_t passes_ = 0;
  sim::EventQueue queue_;
  sim::Topology topology_;
  MessageNetwork network_;
  sim::WireSpeed copy_;
  std::unique_ptr<ListRun> lists_;
  std::vector<Sorter> sorters_;
  std::vector<Meeting> meetings_;
  std::uint64_t key_messages_ = 0;
  std::uint64_t keys_moved_ = 0;
};

Status SortRun::open() {
  std::uint64_t rest = UINT64_MAX >> (64 - spec_.key_bits);
  for (; rest != 0; rest /= spec_.radix) ++passes_;
  ListSpec lists;
  lists.runner = spec_.runner;
  lists.costs = spec_.costs;
  lists.buffer_per_block = spec_.buffer_per_block;
  lists.block_bytes = block_bytes() * (spec_.hierarchical ? spec_.ranks_per_host : 1);
  for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
    if (has_list(rank)) lists.members.push_back(rank);
  }
  lists.purpose.collective = schedule::Collective::allgather;
  lists.purpose.algorithm = spec_.algorithm;
  lists.purpose.ranks = static_cast<std::uint32_t>(lists.members.size());
  lists.purpose.parameters.ports = spec_.ports;
  auto made = ListRun::create(queue_, network_, *this, std::move(lists));
  if (!made) return made.status();
  lists_ = std::move(*made);
  return {};
}

Result<SortReport> SortRun::run() {
  if (Status opened = open(); !opened) return opened;
  for (std::uint32_t rank = 0; rank < ranks_; ++rank) go_on(rank, Stage::count, {});
  Event event;
  while (queue_.pop(event)) {
    if (kind_of(event) == kStep) {
      step(target_of(event));
    } else if (!network_.handle(event)) {
      lists_->handle(event);
    }
  }
  return report();
}

Result<SortReport> SortRun::report() const {
  SortReport report;
  for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
    const Sorter& sorter = sorters_[rank];
    if (sorter.stage != Stage::over) {
      return failure(Code::internal,
                     "the sort cannot go on: rank {} waits forever in pass {}, stage {}", rank,
                     sorter.pass, static_cast<int>(sorter.stage));
    }
    report.time = std::max(report.time, sorter.since);
    for (std::size_t p = 0; p < kSortPhases; ++p) report.phases[p] += sorter.phases[p];
  }
  for (Picoseconds& phase : report.phases) phase = phase / ranks_;
  report.passes = passes_;
  report.lists = lists_->counts();
  report.key_messages = key_messages_;
  report.keys_moved = keys_moved_;
  report.events = queue_.popped();
  report.digest = queue_.digest();
  return report;
}

void SortRun::go_on(std::uint32_t rank, Stage stage, Picoseconds at) {
  sorters_[rank].stage = stage;
  queue_.push({at, event_key(kStep, rank), 0});
}

void SortRun::wake_at(std::uint32_t rank, Picoseconds at) {
  if (!std::exchange(sorters_[rank].waiting, false)) return;
  go_on(rank, sorters_[rank].stage, at);
}

void SortRun::charge(Sorter& sorter, SortPhase phase, Picoseconds until) {
  sorter.phases[static_cast<std::size_t>(phase)] += until - sorter.since;
  sorter.since = until;
}

void SortRun::step(std::uint32_t rank) {
  Sorter& sorter = sorters_[rank];
  switch (sorter.stage) {
    case Stage::count: {
      sorter.unordered = spec_.keys;
      const Picoseconds end = now() + spec_.work.count * static_cast<std::int64_t>(spec_.keys);
      charge(sorter, SortPhase::count, end);
      return go_on(rank, Stage::call, end);
    }
    case Stage::call:
      return call(rank);
    case Stage::lead:
      return lead(rank);
    case Stage::local:
      charge(sorter, SortPhase::allgather, now());
      return order(rank);
    case Stage::test: {
      const bool news = has_list(rank) && !lists_->done(rank);
      return go_on(rank, Stage::local, news ? lists_->look(rank, now()) : now());
    }
    case Stage::wait:
      return wait(rank);
    case Stage::route: {
      charge(sorter, SortPhase::allgather, now());
      if (sorter.unordered > 0) return order(rank);
      const std::int64_t counts = std::int64_t{ranks_} * spec_.radix;
      const Picoseconds end = now() + spec_.work.route * counts;
      charge(sorter, SortPhase::routes, end);
      return go_on(rank, Stage::exchange, end);
    }
    case Stage::exchange:
      return exchange(rank);
    case Stage::arrive:
      return arrive(rank);
    case Stage::over:
      return;
  }
}

void SortRun::call(std::uint32_t rank) {
  if (!spec_.hierarchical) return begin(rank);
  const Picoseconds end = now() + message_time() + copy_.time_of(block_bytes());
  // The leader needs no wake-up for its own counts. The last of the other ranks to store its counts
  // wakes the leader.
  if (leads(rank)) ++meeting_of(rank).left;
  go_on(rank, Stage::lead, end);
}

void SortRun::lead(std::uint32_t rank) {
  Meeting& meeting = meeting_of(rank);
  if (!leads(rank)) {
    const std::uint32_t leader = rank - rank % spec_.ranks_per_host;
    if (++meeting.left == spec_.ranks_per_host) wake(leader);
    return go_on(rank, spec_.overlapped ? Stage::local : Stage::wait, now());
  }
  if (meeting.left < spec_.ranks_per_host) {
    sorters_[rank].waiting = true;
    return;
  }
  meeting.left = 0;
  begin(rank);
}

void SortRun::begin(std::uint32_t rank) {
  const Picoseconds free = lists_->begin(rank, now());
  go_on(rank, spec_.overlapped ? Stage::local : Stage::wait, free);
}

/// Orders one slice of the keys, or all keys if the Allgather needs no polling in between.
void SortRun::order(std::uint32_t rank) {
  Sorter& sorter = sorters_[rank];
  const bool looks = spec_.overlapped && spec_.runner == ListRunner::host;
  const std::uint64_t slice =
      looks ? std::min(spec_.slice_keys, sorter.unordered) : sorter.unordered;
  sorter.unordered -= slice;
  const Picoseconds end = now() + spec_.work.local * static_cast<std::int64_t>(slice);
  charge(sorter, SortPhase::local, end);
  if (!spec_.overlapped) return go_on(rank, Stage::route, end);
  go_on(rank, sorter.unordered > 0 ? Stage::test : Stage::wait, end);
}

void SortRun::wait(std::uint32_t rank) {
  if (!has_list(rank)) return look_in_memory(rank);
  if (lists_->done(rank)) return take_histograms(rank);
  if (lists_->has_news(rank)) return go_on(rank, Stage::wait, lists_->look(rank, now()));
  sorters_[rank].waiting = true;
}

/// Makes a rank that is not the leader wait until its leader has shared the result.
void SortRun::look_in_memory(std::uint32_t rank) {
  if (meeting_of(rank).shared > sorters_[rank].pass) return take_histograms(rank);
  sorters_[rank].waiting = true;
}

void SortRun::take_histograms(std::uint32_t rank) {
  Picoseconds end = now();
  if (spec_.hierarchical) {
    const std::uint32_t others = spec_.ranks_per_host - 1;
    if (leads(rank)) {
      ++meeting_of(rank).shared;
      for (std::uint32_t i = 1; i <= others; ++i) wake(rank + i);
    }
    end += poll_time() + copy_.time_of(block_bytes() * ranks_);
  }
  go_on(rank, Stage::route, end);
}

void SortRun::exchange(std::uint32_t rank) {
  Picoseconds end = now();
  Sorter& sorter = sorters_[rank];
  for (const SortPart& part : sort_parts(rank, ranks_, spec_.keys, spec_.radix)) {
    const std::uint64_t bytes = part.keys * (spec_.key_bits / 8);
    if (part.to == rank) {
      end += copy_.time_of(bytes);
      sorter.arrived += part.keys;
      continue;
    }
    end += message_time();
    NetworkMessage message;
    message.from = rank;
    message.to = part.to;
    message.bytes = bytes;
    message.keys = part.keys;
    network_.send(end, message);
    ++key_messages_;
    keys_moved_ += part.keys;
  }
  go_on(rank, Stage::arrive, end);
}

void SortRun::arrive(std::uint32_t rank) {
  Sorter& sorter = sorters_[rank];
  if (sorter.arrived < spec_.keys) {
    sorter.waiting = true;
    return;
  }
  sorter.arrived -= spec_.keys;
  const Picoseconds end = now() + poll_time();
  charge(sorter, SortPhase::exchange, end);
  go_on(rank, ++sorter.pass < passes_ ? Stage::count : Stage::over, end);
}

/// Handles the arrival of keys, which are written directly to their final place; the receiving rank
/// sees a completion later.
void SortRun::delivered(const NetworkMessage& message, Picoseconds when) {
  if (message.keys == 0) return lists_->delivered(message, when);
  Sorter& sorter = sorters_[message.to];
  sorter.arrived += message.keys;
  if (sorter.arrived < spec_.keys) return;
  wake_at(message.to, when + sim::from_nanoseconds(spec_.costs.completion));
}

Status check(const SortSpec& spec) {
  const std::uint64_t ranks = std::uint64_t{spec.hosts} * spec.ranks_per_host;
  if (ranks < 2 || ranks > 1u << 14 || spec.hosts < 1) {
    return failure(Code::invalid_argument,
                   "{} hosts of {} ranks each are {} ranks: use 2 to 16384 ranks in all",
                   spec.hosts, spec.ranks_per_host, ranks);
  }
  if (spec.radix < 2 || spec.radix > 65536 || spec.keys < 1 || spec.slice_keys < 1) {
    return failure(Code::invalid_argument,
                   "a setting is out of range: use a radix of 2 to 65536 (now {}), at least one "
                   "key per rank (now {}), and at least one key per slice (now {})",
                   spec.radix, spec.keys, spec.slice_keys);
  }
  if (spec.key_bits != 32 && spec.key_bits != 64) {
    return failure(Code::invalid_argument, "keys of {} bits are not supported: use 32 or 64 bits",
                   spec.key_bits);
  }
  return {};
}

}  // namespace

const char* to_string(SortPhase phase) {
  constexpr const char* kNames[] = {"count", "allgather", "local", "routes", "exchange"};
  return kNames[static_cast<std::size_t>(phase)];
}

std::vector<SortPart> sort_parts(std::uint32_t from, std::uint32_t ranks, std::uint64_t keys,
                                 std::uint32_t radix) {
  std::vector<SortPart> parts;
  for (std::uint64_t digit = 0; digit < radix; ++digit) {
    // Number of keys of one rank that have a digit below `digit`.
    const std::uint64_t below = digit * keys / radix;
    std::uint64_t rest = (digit + 1) * keys / radix - below;
    std::uint64_t place = below * ranks + from * rest;
    while (rest > 0) {
      const auto to = static_cast<std::uint32_t>(place / keys);
      const std::uint64_t here = std::min(rest, (to + 1) * keys - place);
      parts.push_back({to, here});
      place += here;
      rest -= here;
    }
  }
  return parts;
}

Result<SortReport> run_sort(const SortSpec& spec) {
  if (Status checked = check(spec); !checked) return checked;
  return SortRun(spec).run();
}

}  // namespace tutti::simulation
