// One communicator at one rank, as the engine runs it: its endpoint, and the parts that handle its
// operations, messages, chunks and failures. It is driven by `poll`, and never blocks, sleeps or
// reads a clock.
#pragma once

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
#include "engine/exchange/slot_recovery.hpp"
#include "engine/messages/message_router.hpp"
#include "engine/messages/message_sender.hpp"
#include "engine/messages/tagged_messages.hpp"
#include "engine/peers/close_protocol.hpp"
#include "engine/peers/closed_peers.hpp"
#include "engine/peers/failure_coordinator.hpp"
#include "engine/peers/peer_watch.hpp"
#include "engine/peers/rank_names.hpp"
#include "engine/receive/chunk_receiver.hpp"
#include "observe/counters.hpp"
#include "observe/flight_recorder.hpp"
#include "observe/trace_log.hpp"
#include "tutti/units.hpp"

namespace tutti::engine {

class CommunicatorContext {
 public:
  CommunicatorContext(Rank rank, std::uint32_t size, const Settings& settings,
                      std::unique_ptr<device::Endpoint> endpoint, RankNames names);

  /// Starts a collective at once and polls it. If other work has to come first, leaves `operation`
  /// to the caller, which then submits it. Only the owner may call this.
  void try_start_inline(Instant now, std::unique_ptr<Operation>& operation);
  /// Polls the active slot exchange and nothing else; false if the full `poll` is needed. Only the
  /// owner may call this.
  bool poll_inline(Instant now);
  /// Whether a slot exchange is the only work in progress.
  bool only_slot_exchange_active() const;
  /// Does one round of work; returns whether there was any work.
  bool poll(Instant now);
  /// The time at which `poll` must be called even if nothing arrives.
  Instant next_deadline() const;
  /// Whether a collective or a tagged message is submitted or under way.
  bool busy() const { return operations_.busy() || tagged_.busy(); }

  /// Traces collectives from now on. Of a collective in progress, only the part that remains is
  /// traced.
  void trace_to(std::unique_ptr<observe::CommunicatorTrace> trace) {
    trace_ = std::move(trace);
    recorder_.trace_to(trace_.get());
  }

  Rank rank() const { return rank_; }
  std::uint32_t size() const { return size_; }
  /// The settings, with the chunk and window sizes that are in effect.
  const Settings& settings() const { return settings_; }
  /// Limits the length of all datagrams to `bytes` bytes, which must be one of the endpoint's
  /// `probe_sizes` and the same on all ranks. Must be called before the first multicast.
  void limit_datagrams(std::uint32_t bytes);
  device::Endpoint& endpoint() { return *endpoint_; }
  observe::Counters& counters() { return counters_; }
  const observe::Counters& counters() const { return counters_; }
  observe::FlightRecorder& recorder() { return recorder_; }
  const observe::FlightRecorder& recorder() const { return recorder_; }
  /// Trace of this communicator; null: not traced.
  observe::CommunicatorTrace* trace() { return trace_.get(); }

  const RankNames& names() const { return names_; }
  OperationQueue& operations() { return operations_; }
  const OperationQueue& operations() const { return operations_; }
  FailureCoordinator& failures() { return failures_; }
  const FailureCoordinator& failures() const { return failures_; }
  PeerWatch& peers() { return peers_; }
  NetworkEstimates& network() { return network_; }
  MessageSender& messages() { return messages_; }
  TaggedMessages& tagged() { return tagged_; }
  MessageRouter& router() { return router_; }
  ChunkReceiver& receiver() { return receiver_; }
  const ChunkReceiver& receiver() const { return receiver_; }
  Retention& retention() { return retention_; }
  SlotRecovery& slots() { return slots_; }
  CloseProtocol& closing() { return closing_; }

 private:
  void begin_operations(Instant now);
  void begin(Instant now, std::unique_ptr<Operation> begun);
  void start(Instant now, std::uint32_t epoch, Operation& operation);
  void end(Instant now, std::size_t position);
  bool poll_operations(Instant now);
  /// Whether this rank waits for other ranks and must therefore notice the death of a peer. A
  /// closing rank also waits, namely for delivery ACKs.
  bool awaits_peers() const { return !operations_.idle() || tagged_.waiting() || closing_.begun(); }
  void settle_failure(Instant now);

  Rank rank_;
  std::uint32_t size_;
  Settings settings_;
  std::unique_ptr<device::Endpoint> endpoint_;
  observe::Counters counters_;
  observe::FlightRecorder recorder_;
  std::unique_ptr<observe::CommunicatorTrace> trace_;
  // The order of declaration matters, because these members may refer to members above them.
  RankNames names_;
  OperationQueue operations_;
  BarrierPolicy barriers_;
  FailureCoordinator failures_;
  ClosedPeers closed_;
  PeerWatch peers_;
  NetworkEstimates network_;
  MessageSender messages_;
  TaggedMessages tagged_;
  Retention retention_;
  SlotRecovery slots_;
  CloseProtocol closing_;
  MessageRouter router_;
  ChunkReceiver receiver_;
  protocol::Outbox notices_;  ///< failure notices that have not been sent
  std::array<device::Completion, 64> completions_;
  /// Number of polls during which a slot exchange was the only work.
  std::uint32_t rounds_slot_only_ = 0;
};

}  // namespace tutti::engine
