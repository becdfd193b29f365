// The route through the leaders of hosts. It carries out the plans of src/hierarchy on two side
// communicators of each rank. The host side joins the ranks of one host; the across side joins the
// leaders of all hosts or, with groups, the ranks of equal local rank on all hosts.
//
// Calls run one after the other, so that all ranks of a side communicator start its calls in the
// same order.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "crypto/secret.hpp"
#include "engine/core/operation.hpp"
#include "engine/peers/rank_names.hpp"
#include "hierarchy/hierarchical_call.hpp"
#include "hierarchy/host_layout.hpp"
#include "runtime/bootstrap/bootstrap.hpp"
#include "runtime/routes/call_route.hpp"
#include "tutti/collective.hpp"
#include "tutti/options.hpp"
#include "tutti/status.hpp"

namespace tutti::runtime {

class CommunicatorImpl;
class Progress;

class Hierarchy final : public CallRoute, public std::enable_shared_from_this<Hierarchy> {
 public:
  /// True if a rule from an environment variable chooses the algorithm of the call. Thread-safe.
  using Overruled = std::function<bool(const CollectiveCall&)>;

  /// Creates the side communicators; every rank must call this function. Fails if the ranks cannot
  /// tell each other the outcome, because their routes might then differ. A call that names no
  /// algorithm takes this route only if `overruled` returns false. With `groups` there is an across
  /// side for each local rank. Only the ranks of the job know `key`; `names` gives the number in
  /// the job of each rank of the communicator.
  static Result<std::shared_ptr<Hierarchy>> create(
      Bootstrap& bootstrap, const CommunicatorOptions& options, const hierarchy::HostLayout& layout,
      bool groups, Overruled overruled, std::shared_ptr<Progress> progress,
      const crypto::Secret& key, const engine::RankNames& names);
  ~Hierarchy() override;
  /// The reason why no rank may use this route, because a rank could not create its side
  /// communicators; empty: all may.
  const std::string& refusal() const { return refusal_; }
  Hierarchy(const Hierarchy&) = delete;
  Hierarchy& operator=(const Hierarchy&) = delete;

  /// True if the collective has a hierarchical form and the call names the algorithm of this route.
  /// Also true if a call of such a collective names no algorithm, the hierarchical form is at least
  /// as fast as the flat one, and `overruled` returns false.
  bool serves(const CollectiveCall& call) const override;
  Outcome start(const CollectiveCall& call) override;
  Result<PreparedRun> prepare(const CollectiveCall& call) override;
  Result<std::string> algorithm_of(const CollectiveCall& call) override;
  void abort(const std::string& reason) override;
  void fail_because(const Status& cause) override;
  void on_failure(const std::function<void(const Status&)>& hook) override;
  void poll() override;
  Status status() const override;
  bool busy() const override;
  Status close(Instant deadline) override;
  /// A description of the hierarchy for users, such as "2 hosts of 4 ranks each, joined by shared
  /// memory".
  std::string describe() const override;
  /// The counters of both side communicators together, and the counter hierarchical_calls.
  CounterList counters() const override;

 private:
  /// One call under way.
  struct Job {
    hierarchy::HierarchicalCall call;
    /// True while a thread begins stages. A second thread must not begin stages at the same time,
    /// because their order could then be wrong.
    bool advancing = false;
    std::shared_ptr<engine::Completion> completion = std::make_shared<engine::Completion>();
  };

  Hierarchy(const hierarchy::HostLayout& layout, bool groups, Overruled overruled, Rank rank,
            Rank job_rank, std::shared_ptr<Progress> progress)
      : layout_(layout),
        groups_(groups),
        overruled_(std::move(overruled)),
        rank_(rank),
        job_rank_(job_rank),
        progress_(std::move(progress)) {}

  Status open(Bootstrap& bootstrap, const CommunicatorOptions& options, const crypto::Secret& key,
              const engine::RankNames& names);
  CommunicatorImpl& side_of(const hierarchy::HierarchyStage& stage) const {
    return stage.side == hierarchy::HierarchySide::host ? *host_ : *across_;
  }
  void run(const std::shared_ptr<Job>& job);
  void advance(const std::shared_ptr<Job>& job, std::unique_lock<std::mutex> lock);
  void begin(const std::shared_ptr<Job>& job, std::size_t stage);
  void begin_contained(const std::shared_ptr<Job>& job, std::size_t stage);
  void on_stage_end(const std::shared_ptr<Job>& job, std::size_t stage, const Status& status);
  /// Ends a call and runs the next call. Only the owner of the engine may call this function.
  void finish(const std::shared_ptr<Job>& job);
  void give_up(std::span<const Rank> culprits, const std::string& reason);

  hierarchy::HostLayout layout_;
  bool groups_;
  Overruled overruled_;
  Rank rank_;
  Rank job_rank_;  ///< number of this rank in the job
  std::shared_ptr<Progress> progress_;
  std::shared_ptr<CommunicatorImpl> host_;
  /// The across side of this rank. Without groups, only leaders have one, and it is null at the
  /// other ranks.
  std::shared_ptr<CommunicatorImpl> across_;
  std::string refusal_;
  mutable std::mutex mutex_;  ///< guards jobs_ and failed_
  /// Calls that have not ended, in the order in which they were started; only the first one runs.
  std::deque<std::shared_ptr<Job>> jobs_;
  Status failed_;  ///< status of the first stage that failed
  std::atomic<std::uint64_t> calls_{0};
};

}  // namespace tutti::runtime
