// The state behind a communicator handle: the engine's context, the progress that serves it, and
// the routes that its calls take.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/core/communicator_context.hpp"
#include "runtime/bootstrap/bootstrap.hpp"
#include "runtime/communicator/call_planner.hpp"
#include "runtime/communicator/call_route.hpp"
#include "runtime/communicator/greeting.hpp"
#include "runtime/progress/progress.hpp"
#include "tutti/options.hpp"
#include "tutti/status.hpp"

namespace tutti::runtime {

class CommunicatorImpl;

/// The state behind a request handle.
struct RequestState {
  std::shared_ptr<engine::Completion> completion;
  std::shared_ptr<CommunicatorImpl> communicator;
};

/// How a communicator differs from others of the same ranks and options.
struct CommunicatorRole {
  std::uint16_t number = 0;  ///< among those of the same processes
  /// Choices of algorithms; a side communicator's must not depend on its processes' environments.
  collectives::ChoiceTable choices = collectives::ChoiceTable::defaults();
  std::string name{};           ///< of this rank in messages; empty: its host's name
  std::vector<Rank> members{};  ///< its ranks as the job numbers them; empty: the same
  bool traced_by_wish = false;  ///< begins a trace where TUTTI_TRACE asks for it
};

/// Thread-safe, except for add_route and set_note, which come before its first call.
class CommunicatorImpl : public std::enable_shared_from_this<CommunicatorImpl> {
 public:
  /// Creates a communicator with the engine's route alone; collective. `progress` null: its own.
  static Result<std::shared_ptr<CommunicatorImpl>> create(Bootstrap& bootstrap,
                                                          const CommunicatorOptions& options,
                                                          std::shared_ptr<Progress> progress,
                                                          CommunicatorRole role);
  /// Closes this rank's side: serves peers that still need it, for a few seconds at most.
  ~CommunicatorImpl();

  Rank rank() const { return context_->rank(); }
  std::uint32_t size() const { return context_->size(); }
  std::uint16_t number() const { return number_; }
  /// The number of the next duplicate: the same on all ranks, since duplication is collective.
  std::uint16_t next_number() { return static_cast<std::uint16_t>(number_ + 1 + duplicates_++); }
  engine::CommunicatorContext& context() { return *context_; }
  const std::shared_ptr<Progress>& progress() const { return progress_; }
  CallPlanner& calls() { return *calls_; }
  const std::string& device() const { return device_; }
  /// The options and identities of all ranks, by rank.
  const std::vector<PeerOptions>& peers() const { return greetings_; }
  std::string describe() const;

  /// A route that is asked before those that are there.
  void add_route(std::shared_ptr<CallRoute> route);
  /// Another line for `describe`; empty: none.
  void set_note(std::string note) { note_ = std::move(note); }
  /// The route that a call takes.
  CallRoute& route_of(const CollectiveCall& call) const;
  /// Starts a call on its route.
  Result<std::shared_ptr<RequestState>> start(const CollectiveCall& call) {
    return request_of(route_of(call).start(call));
  }
  /// A request for a collective that has begun; fails as its start did.
  Result<std::shared_ptr<RequestState>> request_of(CallRoute::Outcome outcome);
  /// Adds to the counters of this name what the routes have counted.
  void add_side_counters(CallRoute::CounterList& counters) const;
  /// Ends everything here and, naming this rank, at the peers. By the owner of the engine.
  void abort(const std::string& reason);
  /// One round of every route. By the owner of the engine.
  void poll_routes();

 private:
  class Creation;

  CommunicatorImpl() = default;

  std::shared_ptr<Progress> progress_;
  std::unique_ptr<engine::CommunicatorContext> context_;
  std::unique_ptr<CallPlanner> calls_;
  std::vector<std::shared_ptr<CallRoute>> routes_;  ///< asked in this order; the last serves all
  bool served_ = false;                             ///< `progress_` polls the context
  std::uint16_t number_ = 0;
  std::uint16_t duplicates_ = 0;
  std::string bootstrap_;
  std::string device_;
  std::string note_;
  std::vector<PeerOptions> greetings_;
};

}  // namespace tutti::runtime
