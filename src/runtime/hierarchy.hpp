// Hierarchical collectives (C6): ranks of one host meet in shared memory, one rank of each host,
// its leader, speaks for them to the other leaders, by multicast, and shares what it heard.
//
// A call becomes several on two side communicators: that of this host's ranks, and, at leaders,
// that of the leaders. Each waits for the one that it depends on; a long Broadcast is cut into
// segments, so that a host shares one while the next is on its way. Calls of one communicator go
// this way one after the other, so that all ranks of a host start them on its communicator in the
// same order.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "engine/operation.hpp"
#include "runtime/bootstrap.hpp"
#include "runtime/greeting.hpp"
#include "tutti/collective.hpp"
#include "tutti/communicator.hpp"
#include "tutti/status.hpp"

namespace tutti::runtime {

class CommunicatorState;
class Progress;

/// Which ranks are on one host: a partition of all ranks into runs of equal length.
struct HostLayout {
  std::uint32_t hosts = 1;
  std::uint32_t ranks_per_host = 1;

  /// Nothing where the ranks of a host are not consecutive, are not as many on every host, or may
  /// not share memory.
  static HostLayout of(const std::vector<Greeting>& greetings);

  bool hierarchical() const { return hosts > 1 && ranks_per_host > 1; }
  std::uint32_t host_of(Rank rank) const { return index(rank) / ranks_per_host; }
  std::uint32_t place_of(Rank rank) const { return index(rank) % ranks_per_host; }
};

class Hierarchy : public std::enable_shared_from_this<Hierarchy> {
 public:
  using Outcome = Result<std::shared_ptr<engine::Completion>>;

  /// The name of this way, for CollectiveOptions::algorithm.
  static constexpr Algorithm kHierarchical{"hierarchical"};

  /// Makes the side communicators, numbered `number` and `number` + 1, driven by `progress`;
  /// collective over all ranks. `by_choice`: also for calls that do not ask for it; not where the
  /// environment has chosen algorithms. Fails on all ranks alike.
  static Result<std::shared_ptr<Hierarchy>> create(Bootstrap& bootstrap,
                                                   const CommunicatorOptions& options,
                                                   const HostLayout& layout, bool by_choice,
                                                   std::shared_ptr<Progress> progress,
                                                   std::uint16_t number);
  ~Hierarchy();
  Hierarchy(const Hierarchy&) = delete;
  Hierarchy& operator=(const Hierarchy&) = delete;

  /// Whether a call goes this way: it asks for it, or leaves the choice to us and is short enough,
  /// since two copies in shared memory cost less than messages to every rank. The same at all
  /// ranks.
  bool serves(const CollectiveCall& call) const;
  /// Starts a call that it serves and that has been checked. The buffers are Tutti's until the
  /// completion.
  Outcome start(const CollectiveCall& call);

  /// Ends the calls under way here and, naming this rank, at the peers. While nobody else drives.
  void abort(const std::string& reason);
  /// One round of the side communicators.
  void poll();

  /// "2 hosts of 4 ranks each".
  std::string describe() const;
  /// Calls that went this way.
  std::uint64_t calls() const { return calls_.load(std::memory_order_relaxed); }
  /// Every protocol counter by name, of both side communicators together.
  std::vector<std::pair<std::string, std::uint64_t>> counters() const;

 private:
  /// One call on a side communicator.
  struct Stage {
    static constexpr std::size_t kNone = SIZE_MAX;

    CommunicatorState* side = nullptr;
    CollectiveCall call;
    std::size_t after = kNone;  ///< the stage of the job that is over first
    bool begun = false;
    bool ended = false;
  };
  /// One call, as stages in the order in which each side communicator begins its own.
  struct Job {
    std::vector<Stage> stages;
    std::size_t begun = 0;
    std::size_t ended = 0;
    bool advancing = false;  ///< somebody begins stages: nobody else does, or they would overtake
    Status status;           ///< of the first stage that failed: no further one begins
    std::shared_ptr<engine::Completion> completion = std::make_shared<engine::Completion>();

    /// The next stage that may begin, by number; kNone: none now.
    std::size_t ready() const;
    bool over() const { return ended == begun && (begun == stages.size() || !status.ok()); }
  };

  Hierarchy(const HostLayout& layout, bool by_choice, Rank rank, std::shared_ptr<Progress> progress)
      : layout_(layout), by_choice_(by_choice), rank_(rank), progress_(std::move(progress)) {}

  Status open(Bootstrap& bootstrap, const CommunicatorOptions& options, std::uint16_t number);
  bool leads() const { return layout_.place_of(rank_) == 0; }
  std::vector<Stage> stages_of(const CollectiveCall& call) const;
  std::vector<Stage> broadcast_stages(const CollectiveCall& call) const;
  std::vector<Stage> allgather_stages(const CollectiveCall& call) const;
  std::vector<Stage> barrier_stages(const CollectiveCall& call) const;
  static std::vector<Stage> one_after_the_other(std::vector<Stage> stages);
  void run(const std::shared_ptr<Job>& job);
  void advance(const std::shared_ptr<Job>& job, std::unique_lock<std::mutex> lock);
  void begin(const std::shared_ptr<Job>& job, std::size_t stage);
  void on_stage_end(const std::shared_ptr<Job>& job, std::size_t stage, const Status& status);
  void finish(const std::shared_ptr<Job>& job);
  Rank culprit_of(CommunicatorState& failed) const;
  void give_up(Rank culprit, const std::string& reason);

  HostLayout layout_;
  bool by_choice_;
  Rank rank_;
  std::shared_ptr<Progress> progress_;
  std::shared_ptr<CommunicatorState> host_;     ///< this host's ranks
  std::shared_ptr<CommunicatorState> leaders_;  ///< null where this rank leads nobody
  std::mutex mutex_;                            ///< guards the jobs
  std::deque<std::shared_ptr<Job>> jobs_;       ///< the first runs
  std::atomic<std::uint64_t> calls_{0};
};

}  // namespace tutti::runtime
