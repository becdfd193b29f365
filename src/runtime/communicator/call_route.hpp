// A route that carries out calls of a communicator: its engine, the leaders of hosts, or
// aggregators.
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

namespace tutti::runtime {

/// One route for calls. Thread-safe, except for functions marked "owner of the engine".
class CallRoute {
 public:
  using Outcome = Result<std::shared_ptr<engine::Completion>>;
  /// Starts one run of a prepared call. The route outlives it.
  using PreparedRun = std::function<Outcome()>;
  using CounterList = std::vector<std::pair<std::string, std::uint64_t>>;

  virtual ~CallRoute() = default;

  /// True if the call takes this route. Must be the same on all ranks.
  virtual bool serves(const CollectiveCall& call) const = 0;
  /// Checks and starts a call that this route serves. The buffers belong to Tutti until the
  /// completion.
  virtual Outcome start(const CollectiveCall& call) = 0;
  /// Prepares a call that this route serves for many runs; the call's sizes and offsets outlive the
  /// runs.
  virtual Result<PreparedRun> prepare(const CollectiveCall& call) {
    return PreparedRun([this, call] { return start(call); });
  }
  /// The name of the algorithm that would carry out a call that this route serves.
  virtual Result<std::string> algorithm_of(const CollectiveCall& call) = 0;
  /// Protocol counters, by name, of the communicators that belong to this route.
  virtual CounterList counters() const = 0;
  /// A line about this route for Communicator::describe; may be empty.
  virtual std::string describe() const = 0;
  /// Ends the route's calls under way at this rank and, with an error that names this rank, at the
  /// peers. Owner of the engine only.
  virtual void abort(const std::string& reason) = 0;
  /// Polls the route's communicators once. Owner of the engine only.
  virtual void poll() = 0;
};

}  // namespace tutti::runtime
