// The object behind a communicator handle: the engine's context, the progress object that serves
// it, and the routes of its calls.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "crypto/secret.hpp"
#include "device/posix/home_process.hpp"
#include "engine/core/communicator_context.hpp"
#include "runtime/bootstrap/bootstrap.hpp"
#include "runtime/communicator/call_planner.hpp"
#include "runtime/communicator/greeting.hpp"
#include "runtime/progress/progress.hpp"
#include "runtime/routes/call_route.hpp"
#include "tutti/options.hpp"
#include "tutti/status.hpp"
#include "tutti/units.hpp"

namespace tutti::runtime {

class CommunicatorImpl;

/// The object behind a request handle.
struct RequestState {
  std::shared_ptr<engine::Completion> completion;
  std::shared_ptr<CommunicatorImpl> communicator;
  bool receives = false;  ///< true: a receive of a message, the only request that can be cancelled
};

/// The properties that distinguish a communicator from others with the same ranks and options.
struct CommunicatorRole {
  /// Communicator number that this rank proposes; all ranks then use the highest proposed number.
  /// The number distinguishes the communicator from others of the same processes.
  std::uint16_t number = 0;
  /// The algorithm table. The creator passes it, because the table of a side communicator must not
  /// depend on environment variables.
  collectives::ChoiceTable choices = collectives::ChoiceTable::defaults();
  std::string name{};  ///< name of this rank in error texts; empty: name of its host
  /// For each rank of the communicator, its number in the job; empty if every rank has the same
  /// number in the communicator and in the job.
  std::vector<Rank> members{};
  /// Number of ranks of the job, or UINT32_MAX if it is not known; 0: the members are the job.
  std::uint32_t job_size = 0;
  bool traced_by_wish = false;    ///< true: the communicator is traced if TUTTI_TRACE is set
  std::uint32_t first_epoch = 1;  ///< epoch of the first collective
  /// Key that only the ranks of the communicator have; null: none. It must stay valid until the
  /// creation ends.
  const crypto::Secret* key = nullptr;
};

/// Thread-safe, except for add_route and set_note, which must precede the first call.
class CommunicatorImpl : public std::enable_shared_from_this<CommunicatorImpl> {
 public:
  /// Creates a communicator with the engine as its only route; collective. If `progress` is null, a
  /// new progress object is created.
  static Result<std::shared_ptr<CommunicatorImpl>> create(Bootstrap& bootstrap,
                                                          const CommunicatorOptions& options,
                                                          std::shared_ptr<Progress> progress,
                                                          CommunicatorRole role);
  /// Closes the communicator.
  ~CommunicatorImpl();

  /// Ok in the process that created the communicator. An error in a child of fork(), because the
  /// sockets belong to the parent and its threads do not exist in the child.
  Status check_home() const { return home_.left() ? not_at_home() : Status(); }
  /// As check_home(), but also fails in a completion callback of another engine.
  Status check_caller() const;
  /// Serves peers that may still need this rank's data, until `deadline` at most, and then closes
  /// the communicator at this rank. No collective or message may be under way; only the first call
  /// of close() has an effect.
  Status close(Instant deadline);
  /// Waits for the calls under way, then closes the communicator, both within `timeout`. Calls that
  /// are not done when this time has passed are aborted.
  Status finalize(Nanoseconds timeout);

  Rank rank() const { return context_->rank(); }
  std::uint32_t size() const { return context_->size(); }
  std::uint16_t number() const { return number_; }
  /// The name of the communicator in the names of files: 8 random hexadecimal digits, the same at
  /// every rank.
  const std::string& job_name() const { return job_name_; }
  engine::CommunicatorContext& context() { return *context_; }
  const std::shared_ptr<Progress>& progress() const { return progress_; }
  CallPlanner& calls() { return *calls_; }
  const std::string& device() const { return device_; }
  /// The reason why the communicator does not use multicast; empty if it does.
  const std::string& no_multicast() const { return no_multicast_; }
  /// The key for the creation of communicators from this one; only the ranks of this communicator
  /// have it.
  const crypto::Secret& child_key() const { return child_key_; }
  /// The peer options of all ranks, indexed by rank.
  const std::vector<PeerOptions>& peers() const { return greetings_; }
  std::string describe() const;

  /// Adds a route that takes precedence over the existing routes.
  void add_route(std::shared_ptr<CallRoute> route);
  /// Sets a line that `describe` adds to its text; empty: no line.
  void set_note(std::string note) { note_ = std::move(note); }
  /// The route that `call` takes. Fails if an enumerator of the call does not exist.
  Result<CallRoute*> route_of(const CollectiveCall& call) const;
  /// Starts a call on its route.
  Result<std::shared_ptr<RequestState>> start(const CollectiveCall& call) {
    if (Status status = check_usable(); !status) return status;
    const auto route = route_of(call);
    if (!route) return route.status();
    return request_of([&] { return (*route)->start(call); });
  }
  /// Starts a send or a receive.
  Result<std::shared_ptr<RequestState>> start(engine::TaggedCall call, bool will_wait);
  /// Cancels a receive; has no effect if the receive has already got a message. Fails if the
  /// request is not a receive.
  Status cancel(const RequestState& request);
  /// The first failure of the communicator or of one of its side communicators; ok if there is
  /// none. After finalize(), an error that says that the communicator was finalized.
  Status status() const;
  /// Fails if the communicator can start no more calls: it or a side communicator has failed, or
  /// finalize() was called.
  Status check_usable();
  /// Calls `start` to begin a collective, and returns a request for it; fails if `start` fails.
  template <typename Start>
  Result<std::shared_ptr<RequestState>> request_of(Start&& start) {
    // The request is allocated before the collective begins. Otherwise a failed allocation would
    // leave a collective that uses the caller's buffers and has no request.
    auto request = std::make_shared<RequestState>();
    request->communicator = shared_from_this();
    CallRoute::Outcome outcome = start();
    if (!outcome) return outcome.status();
    request->completion = std::move(*outcome);
    return request;
  }
  /// Adds to each entry of `counters` the values that the routes count under the same name.
  void add_side_counters(CallRoute::CounterList& counters) const;
  /// Aborts every call, here and at the peers, with an error that names this rank. Only the owner
  /// of the engine may call this.
  void abort(const std::string& reason);
  /// Polls every route once. Only the owner of the engine calls this.
  void poll_routes();

 private:
  class Creation;

  CommunicatorImpl() = default;
  Status not_at_home() const;

  Status failure_of_routes() const;
  void fail_routes();
  bool busy();
  bool await_calls(Instant deadline);
  Status end_calls(Instant deadline, Nanoseconds timeout);

  device::HomeProcess home_;
  std::shared_ptr<Progress> progress_;
  std::unique_ptr<engine::CommunicatorContext> context_;
  std::unique_ptr<CallPlanner> calls_;
  /// Routes in order of precedence: a call takes the first that serves it, and the last one serves
  /// every call.
  std::vector<std::shared_ptr<CallRoute>> routes_;
  bool served_ = false;  ///< true: `progress_` polls the context
  std::uint32_t receive_workers_ = 0;
  std::atomic<bool> finalized_{false};
  std::atomic<bool> closed_{false};
  std::uint16_t number_ = 0;
  std::string job_name_;
  std::string bootstrap_;
  std::string device_;
  std::string no_multicast_;
  std::string note_;
  std::vector<PeerOptions> greetings_;
  crypto::Secret child_key_;
};

}  // namespace tutti::runtime
