#include "world/explorer.hpp"

#include <algorithm>
#include <unordered_set>

#include "base/error.hpp"
#include "base/random.hpp"
#include "engine/communicator_context.hpp"
#include "world/choice_network.hpp"
#include "world/collective_run.hpp"

namespace tutti::world {

namespace {

constexpr Instant kStart{1'000};
constexpr std::uint32_t kMostWaits = 400;  // times that time passes in one run

/// One run: the ranks, and what each has been brought so far.
class Execution {
 public:
  Execution(const ExplorerSpec& spec, const std::vector<Bytes>& expected)
      : network_(spec.ranks, spec.chunk_bytes, spec.lost), histories_(spec.ranks) {
    engine::Settings settings;
    settings.chains = spec.chains;
    settings.first_epoch = spec.first_epoch;
    settings.always_barrier = spec.always_barrier;
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

  std::vector<ChoiceNetwork::Choice> choices() const { return network_.choices(); }
  void deliver(const ChoiceNetwork::Choice& choice) {
    std::uint64_t& history = histories_[index(choice.at)];
    history = mix(history ^ choice.name);
    network_.deliver(choice);
    settle(index(choice.at));
  }
  /// Lets time pass to the next deadline; false where there is none.
  bool wait() {
    Instant deadline = kNever;
    for (const auto& context : contexts_) deadline = std::min(deadline, context->next_deadline());
    if (deadline == kNever || ++waits_ > kMostWaits) return false;
    now_ = std::max(deadline, now_ + Nanoseconds(1));
    for (std::uint32_t r = 0; r < contexts_.size(); ++r) {
      histories_[r] = mix(histories_[r] ^ static_cast<std::uint64_t>(now_.nanoseconds));
      settle(r);
    }
    return true;
  }
  /// Names the state: what each rank has seen.
  std::uint64_t state() const {
    std::uint64_t state = 0;
    for (const std::uint64_t history : histories_) state = mix(state ^ history);
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
      contexts_[rank]->submit(std::move(operation));
    }
  }
  void settle(std::uint32_t rank) {
    while (contexts_[rank]->poll(now_) || contexts_[rank]->has_submissions()) {
    }
  }

  ChoiceNetwork network_;
  std::vector<std::vector<CollectiveRun>> runs_;
  std::vector<std::unique_ptr<engine::CommunicatorContext>> contexts_;
  std::vector<std::uint64_t> histories_;
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
  /// Goes a way again, then on to its end; what it passes by is left in `open`.
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
            failure(Code::internal, "nothing happens any more, and a rank has not finished"), path);
      }
      // Waiting is no choice: a way that is gone again waits by itself.
      if (count == 0) continue;
      for (std::size_t i = count; i-- > 1;) {
        open.push_back(path);
        open.back().push_back(static_cast<std::uint16_t>(i));
      }
      path.push_back(0);
      step(execution, 0);
    }
    ++report_.ends;
    if (Status status = execution.check_end(); !status) fail(status, path);
  }

  void step(Execution& execution, std::uint16_t choice) {
    auto choices = execution.choices();
    while (choices.empty() && execution.wait()) choices = execution.choices();
    ++report_.steps;
    if (choice < choices.size()) execution.deliver(choices[choice]);
  }

  void fail(const Status& status, const std::vector<std::uint16_t>& path) {
    report_.verdict = status;
    Execution execution(spec_, expected_);
    for (const std::uint16_t choice : path) {
      auto choices = execution.choices();
      while (choices.empty() && execution.wait()) choices = execution.choices();
      if (choice >= choices.size()) break;
      report_.path += ChoiceNetwork::describe(choices[choice]) + "; ";
      execution.deliver(choices[choice]);
    }
  }

  const ExplorerSpec& spec_;
  std::vector<Bytes> expected_;
  std::unordered_set<std::uint64_t> seen_;  ///< asked, never walked through
  ExplorerReport report_;
};

}  // namespace

ExplorerReport explore(const ExplorerSpec& spec) { return Explorer(spec).run(); }

ExplorerReport explore_all_losses(ExplorerSpec spec, std::uint32_t chunks) {
  ExplorerReport sum;
  sum.complete = true;
  const std::uint64_t sets = std::uint64_t{1} << (chunks * spec.ranks);
  for (std::uint64_t set = 0; set < sets && sum.verdict.ok(); ++set) {
    spec.lost.assign(chunks, 0);
    for (std::uint32_t i = 0; i < chunks; ++i) {
      spec.lost[i] = static_cast<std::uint32_t>(set >> (i * spec.ranks)) & ((1u << spec.ranks) - 1);
    }
    // A rank's own chunk does not come by the network: those sets are the same without it.
    const CollectiveSpec& what = spec.collectives[0];
    const bool gathers = what.kind == CollectiveKind::allgather;
    const std::uint32_t block = std::max<std::uint32_t>(
        1, static_cast<std::uint32_t>((what.bytes + spec.chunk_bytes - 1) / spec.chunk_bytes));
    bool own = false;
    for (std::uint32_t i = 0; i < chunks; ++i) {
      const std::uint32_t sender = gathers ? i / block : index(what.root);
      own = own || (spec.lost[i] >> sender & 1) != 0;
    }
    if (own) continue;
    const ExplorerReport one = explore(spec);
    sum.states += one.states;
    sum.ends += one.ends;
    sum.steps += one.steps;
    sum.complete = sum.complete && one.complete;
    sum.verdict = one.verdict;
    sum.path = one.path;
    if (!one.verdict.ok()) {
      sum.verdict = failure(one.verdict.code(), "losses {:#x}: {}", set, one.verdict.message());
    }
  }
  return sum;
}

}  // namespace tutti::world
