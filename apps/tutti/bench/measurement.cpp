#include "bench/measurement.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <thread>

#include "base/error.hpp"
#include "bench/interface_bytes.hpp"
#include "bench/peers/measure.hpp"

namespace tutti::app {
namespace {

// The ranks agree on a common start this long in advance. After a start that a rank has missed,
// this time doubles, up to kLongestLeadNs.
constexpr std::int64_t kFirstLeadNs = 2'000'000;
constexpr std::int64_t kLongestLeadNs = 100'000'000;
constexpr int kAttemptsPerIteration = 3;
// The checks for one row of the table process at most about this many bytes. If the repetitions of
// the row receive more bytes, only every n-th repetition is checked.
constexpr std::uint64_t kCheckedBytes = std::uint64_t{256} << 20;
// A rank without memory for its buffers sends this value instead of its receive buffer's size.
constexpr std::uint64_t kNoBuffers = UINT64_MAX;
// Sleep before each reading of the byte counters, so that the counters include the last ACKs.
constexpr auto kSettle = std::chrono::milliseconds(10);

/// The data that each rank sends to all others before a repetition, to agree on its start.
struct Turn {
  std::int64_t now_ns = 0;
  /// 1 if this rank missed the previous common start because it learnt the start time too late,
  /// otherwise 0.
  std::int64_t was_late = 0;
};

/// Repeats an exercise; all ranks start each repetition at the same instant.
class Repetitions {
 public:
  Repetitions(Session& session, Exercise& exercise, int check_every)
      : session_(session), exercise_(exercise), check_every_(check_every) {}

  /// Runs repetitions until all ranks have started `wanted` of them on time, or until too many
  /// repetitions had a late start.
  Status add(int wanted);
  /// Exchanges the ranks' results and combines them; every rank gets the same result.
  Result<Measured> result() const;
  /// The number of repetitions so far, including those for warm-up and those with a late start.
  int total() const { return total_; }

 private:
  Result<bool> agree(int wanted);
  Status run_one();

  Session& session_;
  Exercise& exercise_;
  int check_every_;  ///< interval of checked repetitions: every n-th one is checked; 0: none
  std::uint64_t repetition_ = 0;
  std::int64_t lead_ns_ = kFirstLeadNs;
  std::int64_t start_ns_ = 0;
  /// True while this rank does not know whether all ranks started the last repetition on time.
  bool pending_ = false;
  bool late_ = false;
  std::int64_t last_ns_ = 0;
  std::vector<std::int64_t> own_ns_;
  int total_ = 0;
  int attempts_ = 0;
  int late_starts_ = 0;
  int checked_ = 0;
  std::uint64_t wrong_ = 0;
};

/// Records the time of the previous repetition if all ranks started it on time, and sets the common
/// start of the next one. Returns false if no further repetition is needed.
Result<bool> Repetitions::agree(int wanted) {
  auto turns = session_.share(Turn{bench::now_ns(), late_ ? 1 : 0});
  if (!turns) return turns.status();
  std::int64_t latest_ns = 0;
  bool late = false;
  for (const Turn& turn : *turns) {
    latest_ns = std::max(latest_ns, turn.now_ns);
    late = late || turn.was_late != 0;
  }
  if (pending_ && late) {
    ++late_starts_;
    lead_ns_ = std::min(lead_ns_ * 2, kLongestLeadNs);
  } else if (pending_) {
    own_ns_.push_back(last_ns_);
  }
  pending_ = false;
  start_ns_ = latest_ns + lead_ns_;
  return static_cast<int>(own_ns_.size()) < wanted && attempts_ < wanted * kAttemptsPerIteration;
}

Status Repetitions::run_one() {
  late_ = false;
  if (session_.one_clock()) {
    late_ = bench::now_ns() > start_ns_;
    bench::wait_until(start_ns_);
  } else {
    if (Status status = session_.finish(); !status) return status;
    start_ns_ = bench::now_ns();
  }
  if (Status status = exercise_.run(); !status) return status;
  last_ns_ = bench::now_ns() - start_ns_;
  if (session_.one_clock()) bench::stand_aside();
  pending_ = true;
  ++attempts_;
  ++total_;
  return {};
}

Status Repetitions::add(int wanted) {
  own_ns_.clear();
  attempts_ = late_starts_ = 0;
  while (true) {
    ++repetition_;
    const bool check = check_every_ != 0 && repetition_ % check_every_ == 0;
    if (check || repetition_ == 1) exercise_.fill(repetition_);
    auto more = agree(wanted);
    if (!more) return more.status();
    if (!*more) return {};
    if (Status status = run_one(); !status) return status;
    if (!check) continue;
    // The check waits until all ranks have finished the collective, because a check would take the
    // core from a rank that still runs the collective.
    if (Status status = session_.finish(); !status) return status;
    ++checked_;
    wrong_ += exercise_.count_wrong(repetition_);
  }
}

Result<Measured> Repetitions::result() const {
  std::vector<std::int64_t> mine = own_ns_;
  mine.push_back(static_cast<std::int64_t>(wrong_));
  auto all = session_.exchange(mine);
  if (!all) return all.status();
  if (own_ns_.empty()) {
    return failure(Code::timeout,
                   "at least one rank started late in each of the {} repetitions: stop other "
                   "programs on the hosts of the ranks",
                   attempts_);
  }
  Measured measured;
  measured.late_starts = late_starts_;
  measured.checked = checked_;
  measured.times_ns.resize(own_ns_.size());
  for (const auto& rank : *all) {
    for (std::size_t i = 0; i < own_ns_.size(); ++i) {
      measured.times_ns[i] = std::max(measured.times_ns[i], rank[i]);
    }
    measured.wrong_bytes += static_cast<std::uint64_t>(rank.back());
  }
  std::sort(measured.times_ns.begin(), measured.times_ns.end());
  return measured;
}

int check_interval(std::uint64_t most_received_bytes, const MeasureOptions& options) {
  if (!options.check) return 0;
  const std::uint64_t repetitions = static_cast<std::uint64_t>(options.iterations + options.warmup);
  const std::uint64_t every = most_received_bytes * repetitions / kCheckedBytes;
  return static_cast<int>(std::clamp<std::uint64_t>(every, 1, repetitions));
}

double ideal_bytes(const ExerciseOptions& exercise, std::uint32_t size) {
  const double blocks = exercise.operation == Operation::allgather ? size : 1;
  return static_cast<double>(exercise.send_bytes) * blocks * size;
}

/// Runs the exercise several times and measures the bytes on the interfaces. Returns the mean
/// number of bytes per run.
Result<LinkBytes> measure_link(Session& session, Exercise& exercise, const ExerciseOptions& what,
                               int iterations) {
  const std::string& interface = session.locations()[index(session.rank())].interface;
  // If this rank cannot read its counters, it tells the others in the last exchange of this
  // function. An earlier return would block the other ranks in that exchange.
  if (auto status = session.exchange(std::vector<int>{0}); !status) return status.status();
  std::this_thread::sleep_for(kSettle);
  const auto before = interface_bytes(interface);
  for (int i = 0; i < iterations; ++i) {
    if (Status status = exercise.run(); !status) return status;
  }
  if (Status status = session.finish(); !status) return status;
  std::this_thread::sleep_for(kSettle);
  const auto after = interface_bytes(interface);
  std::vector<std::uint64_t> mine{0, 0, 0};
  if (before && after) mine = {1, after->sent - before->sent, after->received - before->received};
  auto all = session.exchange(mine);
  if (!all) return all.status();
  LinkBytes link;
  std::set<std::string> seen;
  for (std::size_t r = 0; r < all->size(); ++r) {
    if ((*all)[r][0] == 0) {
      return failure(Code::unsupported,
                     "--link-bytes: rank {} cannot read the byte counters of its interface: leave "
                     "--link-bytes out",
                     r);
    }
    const double sent = static_cast<double>((*all)[r][1]) / iterations;
    const double received = static_cast<double>((*all)[r][2]) / iterations;
    link.by_rank.emplace_back(sent, received);
    link.max_sent = std::max(link.max_sent, sent);
    link.max_received = std::max(link.max_received, received);
    const Location& where = session.locations()[r];
    if (seen.insert(where.network + where.interface).second) link.total += sent + received;
  }
  const bool multicasts =
      what.operation == Operation::allgather || what.operation == Operation::broadcast;
  if (multicasts && seen.size() == session.size()) link.ideal = ideal_bytes(what, session.size());
  return link;
}

/// Stores in `measured` how much the counters of all ranks have increased since `before` was read.
/// The collective has run `repetitions` times since then.
Status count_increase(Session& session, const Counters& before, int repetitions,
                      Measured& measured) {
  const Counters after = session.communicator().counters();
  auto all = session.exchange(increases(before, after));
  if (!all) return all.status();
  std::vector<std::uint64_t> sent(session.size());
  for (std::size_t i = 0; i < after.size(); ++i) {
    const std::string& name = after[i].first;
    std::uint64_t sum = 0;
    for (const auto& rank : *all) sum += rank[i];
    if (sum != 0) measured.counters.emplace_back(name, sum);
    if (name != "device_multicast_bytes_sent" && name != "device_reliable_bytes_sent") continue;
    for (std::size_t r = 0; r < sent.size(); ++r) sent[r] += (*all)[r][i];
  }
  for (const std::uint64_t bytes : sent) {
    measured.sent_bytes_by_rank.push_back(static_cast<double>(bytes) / repetitions);
  }
  return {};
}

}  // namespace

std::vector<std::uint64_t> increases(const Counters& before, const Counters& after) {
  std::vector<std::uint64_t> result;
  for (std::size_t i = 0; i < after.size(); ++i) {
    result.push_back(after[i].second - std::min(before[i].second, after[i].second));
  }
  return result;
}

std::int64_t Measured::percentile_ns(double percent) const {
  if (times_ns.empty()) return 0;
  const double place = std::ceil(percent / 100 * static_cast<double>(times_ns.size()));
  const auto index = static_cast<std::size_t>(std::max(place, 1.0)) - 1;
  return times_ns[std::min(index, times_ns.size() - 1)];
}

double Measured::mean_ns() const {
  if (times_ns.empty()) return 0;
  const double sum = std::accumulate(times_ns.begin(), times_ns.end(), 0.0);
  return sum / static_cast<double>(times_ns.size());
}

Result<Measured> measure(Session& session, const ExerciseOptions& what,
                         const MeasureOptions& options) {
  auto exercise = Exercise::create(session.communicator(), what);
  // A rank without memory for its buffers reports this to the others, which would otherwise block
  // in their first collective.
  const std::uint64_t received = exercise.ok() ? exercise->received_bytes() : kNoBuffers;
  auto all_received = session.exchange(std::vector<std::uint64_t>{received});
  if (!exercise) return exercise.status();
  if (!all_received) return all_received.status();
  std::uint64_t most_received = 0;
  for (std::size_t r = 0; r < all_received->size(); ++r) {
    const std::uint64_t of_rank = (*all_received)[r][0];
    if (of_rank == kNoBuffers)
      return failure(Code::peer_failed,
                     "rank {} has too little memory for its buffers: use smaller sizes", r);
    most_received = std::max(most_received, of_rank);
  }
  // An unsupported algorithm gives the same error on all ranks, so no rank waits for another.
  auto algorithm = exercise->algorithm();
  if (!algorithm) return algorithm.status();
  const auto before = session.communicator().counters();
  // All ranks check the same repetitions, because each check waits for all ranks.
  Repetitions repetitions(session, *exercise, check_interval(most_received, options));
  if (Status status = repetitions.add(options.warmup); !status) return status;
  if (Status status = repetitions.add(options.iterations); !status) return status;
  auto measured = repetitions.result();
  if (!measured) return measured.status();
  measured->algorithm = std::move(*algorithm);
  const int all = std::max(repetitions.total(), 1);
  if (Status status = count_increase(session, before, all, *measured); !status) return status;
  if (options.link_bytes) {
    auto link = measure_link(session, *exercise, what, options.iterations);
    if (!link) return link.status();
    measured->link = std::move(*link);
  }
  return measured;
}

}  // namespace tutti::app
