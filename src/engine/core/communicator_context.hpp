// One communicator at one rank, as the engine runs it: its endpoint, the collectives in flight, and
// the state that their machines share. Poll-driven: it never blocks, sleeps or reads a clock.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "device/device.hpp"
#include "engine/core/barrier_policy.hpp"
#include "engine/core/network_estimates.hpp"
#include "engine/core/operation.hpp"
#include "engine/core/operation_queue.hpp"
#include "engine/core/retention.hpp"
#include "engine/core/settings.hpp"
#include "engine/core/unexpected_chunks.hpp"
#include "engine/exchange/slot_recovery.hpp"
#include "engine/messages/message_router.hpp"
#include "engine/messages/message_sender.hpp"
#include "engine/peers/close_protocol.hpp"
#include "engine/peers/failure_coordinator.hpp"
#include "engine/peers/peer_watch.hpp"
#include "engine/peers/rank_names.hpp"
#include "engine/receive/receive_team.hpp"
#include "observe/counters.hpp"
#include "observe/flight_recorder.hpp"
#include "observe/trace_log.hpp"
#include "protocol/codec/message.hpp"
#include "tutti/status.hpp"
#include "tutti/units.hpp"

namespace tutti::engine {

class CommunicatorContext : private device::PlacementResolver {
 public:
  CommunicatorContext(Rank rank, std::uint32_t size, const Settings& settings,
                      std::unique_ptr<device::Endpoint> endpoint, std::vector<std::string> names);

  /// Starts a collective at once and polls it, if no other work has to come first; otherwise leaves
  /// it to the caller to submit. Called by the owner.
  void try_start_inline(Instant now, std::unique_ptr<Operation>& operation);
  /// Polls the active slot exchange and nothing else; false: the full `poll` is needed. Called by
  /// the owner.
  bool poll_inline(Instant now);
  /// Whether a slot exchange is the only work in progress.
  bool only_slot_exchange_active() const;
  /// One round of work; returns whether there was any.
  bool poll(Instant now);
  /// When `poll` must be called even if nothing arrives.
  Instant next_deadline() const;
  /// Whether every message of this rank has reached its peer.
  bool quiet() const;

  /// Traces collectives from now on; those in progress only in part.
  void trace_to(std::unique_ptr<observe::CommunicatorTrace> trace) {
    trace_ = std::move(trace);
    recorder_.trace_to(trace_.get());
  }

  /// Hands the receive sides of the queue pairs to `workers` workers, which the caller's threads
  /// run from now on; no collective may be in progress. Code::unsupported if the device cannot.
  Status use_receive_workers(std::uint32_t workers);
  /// Takes the receive sides back; no thread may run a worker any more.
  void stop_receive_workers();
  /// The receive workers; null without any.
  ReceiveTeam* team() { return team_.get(); }
  /// Whether receive workers have news for `poll`.
  bool has_news() const { return team_ && team_->has_news(); }
  /// Adds the receive workers' counts to `counters`.
  void fold_received() {
    if (team_) team_->fold(counters_);
  }

  // For operations.
  OperationQueue& operations() { return operations_; }
  const OperationQueue& operations() const { return operations_; }
  Rank rank() const { return rank_; }
  std::uint32_t size() const { return size_; }
  /// With the chunk and window sizes in effect.
  const Settings& settings() const { return settings_; }
  device::Endpoint& endpoint() { return *endpoint_; }
  const device::Endpoint& endpoint() const { return *endpoint_; }
  observe::Counters& counters() { return counters_; }
  const observe::Counters& counters() const { return counters_; }
  observe::FlightRecorder& recorder() { return recorder_; }
  const observe::FlightRecorder& recorder() const { return recorder_; }
  /// Trace of this communicator; null: not traced.
  observe::CommunicatorTrace* trace() { return trace_.get(); }
  FailureCoordinator& failures() { return failures_; }
  const FailureCoordinator& failures() const { return failures_; }
  PeerWatch& peers() { return peers_; }
  Retention& retention() { return retention_; }
  SlotRecovery& slots() { return slots_; }
  CloseProtocol& closing() { return closing_; }
  MessageRouter& router() { return router_; }
  MessageSender& messages() { return messages_; }
  const RankNames& names() const { return names_; }
  NetworkEstimates& network() { return network_; }
  /// Whether no chunk can be lost, so that recovery and the handshake are left out. The same on all
  /// ranks.
  bool every_chunk_arrives() const {
    return endpoint_->capabilities().has(device::Capability::every_chunk_arrives);
  }
  /// Whether the last poll of the multicast queue pairs found nothing, so that missing chunks are
  /// not merely unread. With receive workers, `request_drain` asks them and `looked` tells whether
  /// they have answered.
  bool drained() const { return drained_; }
  std::uint64_t request_drain() { return team_ ? team_->request_drain() : 0; }
  bool looked(std::uint64_t drain) const { return team_ ? team_->looked(drain) : drained_; }

 private:
  void place_here();
  device::Placement landing(const device::MessageHead& chunk, bool begins) override;
  bool poll_endpoint(Instant now);
  bool take_completions(Instant now, std::size_t count);
  bool expects_multicast();
  bool poll_multicast(Instant now);
  bool poll_team(Instant now);
  bool workers_stopped(Instant now);
  void on_chunk(Instant now, const device::ReceivedChunk& chunk, device::MulticastQueuePair& pair);
  void discard_multicast();
  void take_submissions(Instant now);
  void begin_operations(Instant now);
  void begin(Instant now, std::unique_ptr<Operation> begun);
  void end(Instant now, std::size_t position);
  bool poll_operations(Instant now);
  void settle_failure(Instant now);

  Rank rank_;
  std::uint32_t size_;
  Settings settings_;
  std::unique_ptr<device::Endpoint> endpoint_;
  RankNames names_;
  FailureCoordinator failures_;
  PeerWatch peers_;
  observe::Counters counters_;
  OperationQueue operations_;
  BarrierPolicy barriers_;
  MessageSender messages_;
  UnexpectedChunks unexpected_chunks_;
  NetworkEstimates network_;
  Retention retention_;
  SlotRecovery slots_;
  CloseProtocol closing_;
  MessageRouter router_;
  observe::FlightRecorder recorder_;
  std::unique_ptr<observe::CommunicatorTrace> trace_;
  protocol::Outbox outbox_;
  std::array<device::Completion, 64> completions_;
  std::array<device::ReceivedChunk, 256> chunks_;
  std::unique_ptr<ReceiveTeam> team_;
  ReceiveTeam::GracePeriod stopping_;  ///< while a failure waits for the workers
  Instant stop_check_ = kNever;        ///< set while it does
  bool drained_ = false;
  std::uint32_t rounds_without_multicast_ = 0;  ///< polls since multicast was last polled
  std::uint32_t rounds_slot_only_ = 0;          ///< polls with nothing but a slot exchange active
};

}  // namespace tutti::engine
