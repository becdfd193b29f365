// A way for calls of a communicator: by its engine, through the leaders of hosts, or through
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

/// Thread-safe, except where marked.
class CallRoute {
 public:
  using Outcome = Result<std::shared_ptr<engine::Completion>>;
  /// One run of a prepared call; the route outlives it.
  using PreparedRun = std::function<Outcome()>;
  using CounterList = std::vector<std::pair<std::string, std::uint64_t>>;

  virtual ~CallRoute() = default;

  /// Whether a call goes this way; the same on all ranks.
  virtual bool serves(const CollectiveCall& call) const = 0;
  /// Checks and starts a call that it serves. The buffers belong to Tutti until the completion.
  virtual Outcome start(const CollectiveCall& call) = 0;
  /// A call that it serves, to be run many times; sizes and offsets of the call outlive the runs.
  virtual Result<PreparedRun> prepare(const CollectiveCall& call) {
    return PreparedRun([this, call] { return start(call); });
  }
  /// The name of what would carry out a call that it serves.
  virtual Result<std::string> algorithm_of(const CollectiveCall& call) = 0;
  /// Protocol counters by name, of the communicators that this route has for itself.
  virtual CounterList counters() const = 0;
  /// One line, or none, for Communicator::describe.
  virtual std::string describe() const = 0;
  /// Ends the calls under way here and, naming this rank, on the peers. By the owner of the engine.
  virtual void abort(const std::string& reason) = 0;
  /// One round of the route's communicators. By the owner of the engine.
  virtual void poll() = 0;
};

}  // namespace tutti::runtime
