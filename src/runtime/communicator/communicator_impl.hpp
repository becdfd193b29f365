// What a communicator handle holds: the engine's context, the progress that serves it, and how it
// came about.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "engine/core/clock_exchange.hpp"
#include "engine/core/communicator_context.hpp"
#include "runtime/bootstrap/bootstrap.hpp"
#include "runtime/communicator/call_planner.hpp"
#include "runtime/communicator/greeting.hpp"
#include "runtime/diagnostics/rank_trace.hpp"
#include "runtime/progress/progress.hpp"
#include "tutti/communicator.hpp"

namespace tutti::runtime {

class Aggregation;
class Hierarchy;
class CommunicatorImpl;

/// What a request handle holds.
struct RequestState {
  std::shared_ptr<engine::Completion> completion;
  std::shared_ptr<CommunicatorImpl> communicator;
};

/// What a communicator is beside its ranks and options.
struct CommunicatorRole {
  std::uint16_t number = 0;  ///< among those of the same processes
  /// Which algorithms its calls choose; a side communicator's must not depend on the environment of
  /// either side.
  collectives::ChoiceTable choices = collectives::ChoiceTable::defaults();
  std::string name{};           ///< of this rank in messages; "": its host's
  std::vector<Rank> members{};  ///< its ranks as the job numbers them; empty: the same
  bool traced_by_wish = false;  ///< begins a trace where TUTTI_TRACE asks for it
};

class CommunicatorImpl : public std::enable_shared_from_this<CommunicatorImpl> {
 public:
  /// The whole way from a bootstrap to a working communicator. `progress` null: its own.
  static Result<std::shared_ptr<CommunicatorImpl>> create(Bootstrap& bootstrap,
                                                          const CommunicatorOptions& options,
                                                          std::shared_ptr<Progress> progress,
                                                          CommunicatorRole role);
  ~CommunicatorImpl();

  Rank rank() const { return context_->rank(); }
  std::uint32_t size() const { return context_->size(); }
  std::uint16_t number() const { return number_; }
  /// The number of the next duplicate: the same on all ranks, since duplication is collective.
  std::uint16_t next_number() { return static_cast<std::uint16_t>(number_ + 1 + duplicates_++); }
  engine::CommunicatorContext& context() { return *context_; }
  const std::shared_ptr<Progress>& progress() const { return progress_; }
  const std::string& device() const { return device_; }
  std::string describe() const;

  /// Joins the aggregators that the options name; collective.
  Status join_aggregators(Bootstrap& bootstrap, const CommunicatorOptions& options);
  /// Joins the ranks of each host in shared memory, and their leaders, where hosts have several and
  /// the device was left to choose; collective. Where that fails `describe` says why.
  Status join_hosts(Bootstrap& bootstrap, const CommunicatorOptions& options);
  /// Adds what the side communicators have counted, by name.
  void add_side_counters(std::vector<std::pair<std::string, std::uint64_t>>& counters) const;

  CallPlanner& calls() { return *calls_; }
  /// Starts a call, on side communicators where those serve it.
  Result<std::shared_ptr<RequestState>> start(const CollectiveCall& call);
  /// Ends everything here and, naming this rank, at the peers. While nobody else drives.
  void abort(const std::string& reason);
  /// One round of this communicator and what it has beside it.
  void poll_sides();
  /// Whether a call goes to the aggregators or through the hosts' leaders.
  bool detoured(const CollectiveCall& call) const;
  /// What would carry it out.
  Result<std::string> algorithm_of(const CollectiveCall& call);
  /// Submits a run of a planned call. Where the communicator has failed, the request has, too.
  Result<std::shared_ptr<RequestState>> submit(const PlannedCall& planned);

 private:
  CommunicatorImpl() = default;

  Result<std::shared_ptr<RequestState>> submit(Result<std::unique_ptr<engine::Operation>> operation,
                                               bool will_wait);
  Status open(Bootstrap& bootstrap, const CommunicatorOptions& options,
              const CommunicatorRole& role, std::uint32_t workers,
              const Result<std::string>& traces);
  CallerFacts facts() const;
  bool aggregated(const CollectiveCall& call) const;
  Status confirm_membership(Nanoseconds timeout);
  Result<std::unique_ptr<RankTrace>> begin_trace(const std::string& directory, Nanoseconds timeout);
  void join_trace(std::vector<Rank> members);
  Result<engine::ClockComparison> compare_clocks(Nanoseconds timeout);
  void drain();
  void linger(Nanoseconds patience);
  void wait_readable();
  /// Flight records on failure and on request, where the environment asks for them.
  void arrange_dumps();

  std::shared_ptr<Progress> progress_;
  std::shared_ptr<Aggregation> aggregation_;  ///< null: no aggregators were named
  std::shared_ptr<Hierarchy> hierarchy_;      ///< null: flat
  std::string hierarchy_note_;                ///< why there is none where one was tried
  std::unique_ptr<engine::CommunicatorContext> context_;
  std::unique_ptr<CallPlanner> calls_;
  bool served_ = false;
  std::uint16_t number_ = 0;
  std::uint16_t duplicates_ = 0;
  std::string bootstrap_;
  std::string device_;
  std::vector<PeerOptions> greetings_;
};

/// What a prepared collective holds: its plan, and what the plan's spans name.
class PreparedState {
 public:
  static Result<std::shared_ptr<PreparedState>> create(
      std::shared_ptr<CommunicatorImpl> communicator, const CollectiveCall& call);
  Result<std::shared_ptr<RequestState>> start();

 private:
  PreparedState() = default;

  std::shared_ptr<CommunicatorImpl> communicator_;
  std::vector<std::uint64_t> sizes_bytes_;
  std::vector<std::uint64_t> offsets_bytes_;
  std::shared_ptr<engine::Completion> last_;
  PlannedCall planned_;  ///< of an aggregated call only the call
};

}  // namespace tutti::runtime
