#include "sim/simulation/explorer.hpp"

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <unordered_set>

#include "base/error.hpp"
#include "base/random.hpp"
#include "engine/core/communicator_context.hpp"
#include "sim/simulation/model_check_network.hpp"
#include "sim/simulation/ranks/collective_run.hpp"

namespace tutti::simulation {

namespace {

constexpr Instant kStart{1'000};
// One run may advance the clock at most this many times.
constexpr std::uint32_t kMaxWaits = 400;

/// One run of the collective: the ranks and the packets delivered to each rank so far.
class Execution {
 public:
  Execution(const ExplorerSpec& spec, const std::vector<Bytes>& expected)
      : network_(spec.ranks, spec.chunk_bytes, spec.lost), histories_(spec.ranks) {
    engine::Settings settings;
    settings.chains = spec.chains;
    settings.first_epoch = spec.first_epoch;
    settings.always_barrier = spec.always_barrier;
    settings.retain_bytes = spec.retain_bytes;
    runs_.resize(spec.ranks);
    for (std::uint32_t r = 0; r < spec.ranks; ++r) {
      contexts_.push_back(std::make_unique<engine::CommunicatorContext>(
          rank_of(r), spec.ranks, settings, network_.open(rank_of(r)), std::vector<std::string>{}));
      for (std::size_t i = 0; i < spec.collectives.size(); ++i) {
        runs_[r].emplace_back(spec.collectives[i], spec.ranks, rank_of(r), expected[i]);
      }
    }
    for (std::uint32_t r = 0; r < spec.ranks; ++r) submit(r);
    for (std::uint32_t r = 0; r < spec.ranks; ++r) settle(r);
  }
  Execution(const Execution&) = delete;
  Execution& operator=(const Execution&) = delete;

  std::vector<ModelCheckNetwork::Choice> choices() const { return network_.choices(); }
  /// Whether `choice` delivers a chunk that was delivered to the same rank before.
  bool is_repeated(const ModelCheckNetwork::Choice& choice) const {
    if (choice.from != kNoRank) return false;
    const std::vector<std::uint64_t>& seen = histories_[index(choice.at)].chunks;
    return std::find(seen.begin(), seen.end(), choice.name) != seen.end();
  }
  /// Delivers a packet; returns whether the packet had any effect.
  bool deliver(const ModelCheckNetwork::Choice& choice) {
    const std::uint32_t rank = index(choice.at);
    const bool chunk = choice.from == kNoRank;
    const Effects before = effects(rank);
    network_.deliver(choice);
    settle(rank);
    const Effects after = effects(rank);
    History& history = histories_[rank];
    if (chunk) history.chunks.push_back(choice.name);
    if (chunk && after.same(before)) {
      history.idle += mix(choice.name);
      return false;
    }
    if (chunk && after.same_atomic_marks(before)) {
      history.marks += mix(choice.name);
    } else {
      history.close_marks();
      history.ordered = mix(history.ordered ^ choice.name);
    }
    return true;
  }
  /// Advances the clock to the next deadline. Returns false if there is none, or if the clock has
  /// advanced kMaxWaits times.
  bool wait() {
    Instant deadline = kNever;
    for (const auto& context : contexts_) deadline = std::min(deadline, context->next_deadline());
    if (deadline == kNever || ++waits_ > kMaxWaits) return false;
    now_ = std::max(deadline, now_ + Nanoseconds(1));
    for (std::uint32_t r = 0; r < contexts_.size(); ++r) {
      histories_[r].close_marks();
      histories_[r].ordered =
          mix(histories_[r].ordered ^ static_cast<std::uint64_t>(now_.nanoseconds));
      settle(r);
    }
    return true;
  }
  /// A hash of the state. The packets delivered to each rank determine the state, so the hash
  /// covers these packets.
  std::uint64_t state() const {
    std::uint64_t state = 0;
    for (const History& one : histories_) {
      state = mix(mix(mix(state ^ one.ordered) ^ one.marks) ^ one.idle);
    }
    return state;
  }
  bool over() const { return left_ == 0; }
  const Status& verdict() const { return verdict_; }
  Status check_end() const {
    for (const auto& of_rank : runs_) {
      for (const CollectiveRun& run : of_rank) {
        if (Status status = run.check_untouched(); !status) return status;
      }
    }
    return {};
  }

 private:
  /// The packets delivered to one rank, as hashes.
  struct History {
    std::uint64_t ordered = 0;  ///< hash over the packets whose order matters
    /// Sum of the hashes of the latest run of chunks that only set their own bit in the chunk map.
    /// The order within this run does not matter.
    std::uint64_t marks = 0;
    /// Sum of the hashes of the chunks that had no effect. Their order does not matter.
    std::uint64_t idle = 0;
    /// Hashes of the contents of the chunks delivered to the rank.
    std::vector<std::uint64_t> chunks;

    void close_marks() {
      ordered = mix(ordered ^ marks);
      marks = 0;
    }
  };
  /// Values that change if a delivered packet has an effect: counters, packets sent, collectives
  /// not yet ended, and the rank's next deadline.
  struct Effects {
    std::uint64_t chunks_received = 0;
    observe::Counters others{};
    std::uint64_t sent = 0;
    std::uint64_t left = 0;
    Instant deadline{};

    bool same_atomic_marks(const Effects& other) const {
      static_assert(std::has_unique_object_representations_v<observe::Counters>);
      return sent == other.sent && left == other.left && deadline == other.deadline &&
             std::memcmp(&others, &other.others, sizeof others) == 0;
    }
    bool same(const Effects& other) const {
      return chunks_received == other.chunks_received && same_atomic_marks(other);
    }
  };

  Effects effects(std::uint32_t rank) const {
    const engine::CommunicatorContext& context = *contexts_[rank];
    const observe::Counters& counters = context.counters();
    Effects effects{counters.chunks_received, counters, network_.sent(), left_,
                    context.next_deadline()};
    // The mere arrival of a chunk is no effect, so the counters of arrivals are set to 0 and never
    // differ.
    observe::Counters& others = effects.others;
    others.chunks_received = others.chunks_duplicate = others.chunks_stale = 0;
    others.chunks_out_of_order = 0;
    return effects;
  }
  void submit(std::uint32_t rank) {
    for (std::size_t i = 0; i < runs_[rank].size(); ++i) {
      auto operation = runs_[rank][i].operation();
      ++left_;
      operation->completion()->callback = [this, rank, i](const Status& status) {
        --left_;
        Status wrong = runs_[rank][i].finish(status.ok());
        if (!status.ok()) wrong = status;
        if (!wrong.ok() && verdict_.ok()) {
          verdict_ = failure(wrong.code(), "rank {}: {}", rank, wrong.message());
        }
      };
      contexts_[rank]->operations().submit(std::move(operation));
    }
  }
  void settle(std::uint32_t rank) {
    while (contexts_[rank]->poll(now_) || contexts_[rank]->operations().has_submissions()) {
    }
  }

  ModelCheckNetwork network_;
  std::vector<std::vector<CollectiveRun>> runs_;
  std::vector<std::unique_ptr<engine::CommunicatorContext>> contexts_;
  std::vector<History> histories_;
  Instant now_ = kStart;
  std::uint32_t waits_ = 0;
  std::uint32_t left_ = 0;
  Status verdict_;
};

class Explorer {
 public:
  explicit Explorer(const ExplorerSpec& spec) : spec_(spec) {
    for (std::size_t i = 0; i < spec.collectives.size(); ++i) {
      expected_.push_back(expected_result(spec.collectives[i], spec.ranks, draw(1, i)));
    }
  }

  ExplorerReport run() {
    std::vector<std::vector<std::uint16_t>> open{{}};
    while (!open.empty() && report_.verdict.ok() && report_.states < spec_.max_states) {
      std::vector<std::uint16_t> path = std::move(open.back());
      open.pop_back();
      go_on(std::move(path), open);
    }
    report_.complete = open.empty() && report_.verdict.ok();
    return report_;
  }

 private:
  /// Repeats a path of choices and continues the path to the end of the collective. At each new
  /// choice, appends to `open` one path for each alternative that was not chosen.
  void go_on(std::vector<std::uint16_t> path, std::vector<std::vector<std::uint16_t>>& open) {
    Execution execution(spec_, expected_);
    for (const std::uint16_t choice : path) step(execution, choice);
    for (;;) {
      if (!execution.verdict().ok()) return fail(execution.verdict(), path);
      const std::size_t count = execution.choices().size();
      if (execution.over() && count == 0) break;
      if (!seen_.insert(execution.state()).second) return;
      ++report_.states;
      if (count == 0 && !execution.wait()) {
        return fail(
            failure(Code::internal,
                    "a rank has not finished its collective, but no packet is in flight: "
                    "either no rank waits for a deadline, or the clock has already advanced to {} "
                    "deadlines",
                    kMaxWaits),
            path);
      }
      // The path lists the delivered packets but not the advances of the clock, because a
      // repetition of the path advances the clock at the same points.
      if (count == 0) continue;
      const std::uint16_t taken = first_choice(execution);
      const std::size_t before = path.size();
      path.push_back(taken);
      if (!step(execution, taken)) continue;
      for (std::size_t i = count; i-- > 0;) {
        if (i == taken) continue;
        open.emplace_back(path.begin(), path.begin() + static_cast<std::ptrdiff_t>(before));
        open.back().push_back(static_cast<std::uint16_t>(i));
      }
    }
    ++report_.ends;
    if (Status status = execution.check_end(); !status) fail(status, path);
  }

  /// Returns the index of the first choice that delivers a repeated chunk, or 0 if no choice does.
  /// A repeated chunk goes first, because its delivery has no effect.
  static std::uint16_t first_choice(const Execution& execution) {
    const auto choices = execution.choices();
    const auto found = std::find_if(choices.begin(), choices.end(), [&](const auto& choice) {
      return execution.is_repeated(choice);
    });
    return static_cast<std::uint16_t>(found == choices.end() ? 0 : found - choices.begin());
  }

  /// Delivers the packet with index `choice` among those that may arrive next; returns whether the
  /// packet had any effect.
  bool step(Execution& execution, std::uint16_t choice) {
    auto choices = execution.choices();
    while (choices.empty() && execution.wait()) choices = execution.choices();
    ++report_.steps;
    if (choice >= choices.size() || execution.deliver(choices[choice])) return true;
    ++report_.idle_steps;
    return false;
  }

  void fail(const Status& status, const std::vector<std::uint16_t>& path) {
    report_.verdict = status;
    Execution execution(spec_, expected_);
    for (const std::uint16_t choice : path) {
      auto choices = execution.choices();
      while (choices.empty() && execution.wait()) choices = execution.choices();
      if (choice >= choices.size()) break;
      report_.path += ModelCheckNetwork::describe(choices[choice]) + "; ";
      execution.deliver(choices[choice]);
    }
  }

  const ExplorerSpec& spec_;
  std::vector<Bytes> expected_;
  /// Hashes of the states seen. The set is never iterated, so the order of its entries cannot
  /// affect the exploration.
  std::unordered_set<std::uint64_t> seen_;
  ExplorerReport report_;
};

/// The senders of the first `chunks` multicast chunks. Collectives, and the ranks of an Allgather,
/// send one after another.
std::vector<std::uint32_t> senders_of(const ExplorerSpec& spec, std::uint32_t chunks) {
  std::vector<std::uint32_t> senders;
  for (const CollectiveSpec& what : spec.collectives) {
    const std::uint64_t block = (what.bytes + spec.chunk_bytes - 1) / spec.chunk_bytes;
    const bool gathers = what.kind == CollectiveKind::allgather;
    for (std::uint32_t r = 0; r < spec.ranks; ++r) {
      if (gathers || rank_of(r) == what.root) senders.insert(senders.end(), block, r);
    }
  }
  senders.resize(chunks);
  return senders;
}

}  // namespace

ExplorerReport explore(const ExplorerSpec& spec) { return Explorer(spec).run(); }

ExplorerReport explore_all_losses(ExplorerSpec spec, std::uint32_t chunks) {
  ExplorerReport sum;
  sum.complete = true;
  const std::vector<std::uint32_t> senders = senders_of(spec, chunks);
  const std::uint64_t sets = std::uint64_t{1} << (chunks * spec.ranks);
  for (std::uint64_t set = 0; set < sets && sum.verdict.ok(); ++set) {
    spec.lost.assign(chunks, 0);
    for (std::uint32_t i = 0; i < chunks; ++i) {
      spec.lost[i] = static_cast<std::uint32_t>(set >> (i * spec.ranks)) & ((1u << spec.ranks) - 1);
    }
    // Skips each set of losses in which a rank loses its own chunk. That chunk does not cross the
    // network, so the same set without this loss has the same effect.
    bool own = false;
    for (std::uint32_t i = 0; i < chunks; ++i) own = own || (spec.lost[i] >> senders[i] & 1) != 0;
    if (own) continue;
    const ExplorerReport one = explore(spec);
    sum.states += one.states;
    sum.ends += one.ends;
    sum.steps += one.steps;
    sum.idle_steps += one.idle_steps;
    sum.complete = sum.complete && one.complete;
    sum.verdict = one.verdict;
    sum.path = one.path;
    if (!one.verdict.ok()) {
      sum.verdict =
          failure(one.verdict.code(), "losses {:#x} (one bit for each chunk and rank): {}", set,
                  one.verdict.message());
    }
  }
  return sum;
}

}  // namespace tutti::simulation
