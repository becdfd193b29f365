// A route is one of the ways in which a communicator carries out calls: by its own engine, through
// the leaders of hosts, or through aggregators.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/core/operation.hpp"
#include "tutti/collective.hpp"
#include "tutti/status.hpp"
#include "tutti/units.hpp"

namespace tutti::runtime {

/// One route of a communicator. Thread-safe, except for functions that only the owner of the engine
/// calls.
class CallRoute {
 public:
  using Outcome = Result<std::shared_ptr<engine::Completion>>;
  /// Starts one run of a prepared call. The route must outlive the run.
  using PreparedRun = std::function<Outcome()>;
  using CounterList = std::vector<std::pair<std::string, std::uint64_t>>;

  virtual ~CallRoute() = default;

  /// True if the call takes this route. The result must be the same on all ranks.
  virtual bool serves(const CollectiveCall& call) const = 0;
  /// Checks and starts a call that takes this route. Until the call completes, its buffers belong
  /// to Tutti.
  virtual Outcome start(const CollectiveCall& call) = 0;
  /// Checks a call that takes this route, and prepares the call for many runs. The arrays of sizes
  /// and offsets that the call names must outlive the runs.
  virtual Result<PreparedRun> prepare(const CollectiveCall& call) = 0;
  /// The name of the algorithm with which this route would carry out `call`.
  virtual Result<std::string> algorithm_of(const CollectiveCall& call) = 0;
  /// The names and values of the protocol counters of the route's side communicators.
  virtual CounterList counters() const = 0;
  /// A line about this route for Communicator::describe; may be empty.
  virtual std::string describe() const = 0;
  /// Aborts all calls of this route that are under way, here and at the peers, with an error that
  /// names this rank. Only the owner of the engine calls this.
  virtual void abort(const std::string& reason) = 0;
  /// Ends all calls of this route that are under way because of `cause`, here and at the peers.
  /// Only the owner of the engine calls this.
  virtual void fail_because(const Status& cause) = 0;
  /// Adds a function that the owner of the engine calls when a communicator of the route fails.
  /// Only the owner of the engine calls this.
  virtual void on_failure(const std::function<void(const Status&)>& hook) = 0;
  /// Polls the route's communicators once. Only the owner of the engine calls this.
  virtual void poll() = 0;
  /// The failure that ended the route; ok: none.
  virtual Status status() const = 0;
  /// Whether a call of this route is under way. Only the owner of the engine calls this.
  virtual bool busy() const = 0;
  /// Closes the side communicators of the route and returns the first error; waits for the peers
  /// until `deadline` at most. No collective may be under way. A second call of this function does
  /// nothing.
  virtual Status close(Instant deadline) = 0;
};

}  // namespace tutti::runtime
