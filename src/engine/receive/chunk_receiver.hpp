// Takes the chunks that arrive by multicast and hands them to their collective, in `poll` or by
// receive workers that the caller's threads run; keeps those of collectives that this rank has not
// begun.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "device/device.hpp"
#include "engine/core/operation.hpp"
#include "engine/core/operation_queue.hpp"
#include "engine/peers/failure_coordinator.hpp"
#include "engine/receive/receive_team.hpp"
#include "engine/receive/unexpected_chunks.hpp"
#include "observe/counters.hpp"
#include "tutti/status.hpp"
#include "tutti/units.hpp"

namespace tutti::engine {

class ChunkReceiver : private device::PlacementResolver {
 public:
  /// `begin_next` begins queued collectives if they may begin. `unexpected_bytes`: limit for chunks
  /// of later collectives. The references outlive this.
  ChunkReceiver(device::Endpoint& endpoint, OperationQueue& operations,
                FailureCoordinator& failures, observe::Counters& counters,
                std::uint64_t unexpected_bytes, std::function<void(Instant)> begin_next);

  /// Hands the receive sides of the queue pairs to `workers` workers, which the caller's threads
  /// run from now on; no collective may be in progress. Code::unsupported if the device cannot.
  Status use_workers(std::uint32_t workers);
  /// Takes the receive sides back; no thread may run a worker any more.
  void stop_workers();
  /// The receive workers; null without any.
  ReceiveTeam* team() { return team_.get(); }
  bool has_workers() const { return team_ != nullptr; }
  /// Whether receive workers have news for `poll`.
  bool has_news() const { return team_ && team_->has_news(); }
  /// Adds the receive workers' counts to the communicator's counters.
  void fold_counts() {
    if (team_) team_->fold(counters_);
  }

  /// Takes what has arrived; returns whether there was any.
  bool poll(Instant now);
  /// Drops what has arrived, after a failure: unread datagrams would keep the wait descriptor
  /// readable and the owner from sleeping.
  void discard();
  /// Whether the last poll of the multicast queue pairs found nothing, so that missing chunks are
  /// not merely unread. With receive workers, `request_drain` asks them and `looked` tells whether
  /// they have answered.
  bool drained() const { return drained_; }
  std::uint64_t request_drain() { return team_ ? team_->request_drain() : 0; }
  bool looked(std::uint64_t drain) const { return team_ ? team_->looked(drain) : drained_; }

  /// A collective has begun: delivers its chunks that arrived before.
  void begin(Instant now, Operation& operation);
  /// A collective is over.
  void end(std::uint32_t epoch);
  /// Destroys a collective that is over once no worker uses it.
  void retire(std::unique_ptr<Operation> operation) {
    if (team_) team_->retire(std::move(operation));
  }
  /// After a failure: whether no worker places chunks any more, so that buffers may be given back.
  bool workers_stopped(Instant now);
  /// When `workers_stopped` must be asked again.
  Instant next_deadline() const { return stop_check_; }

 private:
  void set_resolver();
  device::Placement landing(const device::MessageHead& chunk, bool begins) override;
  bool next_round_polls();
  bool poll_queue_pairs(Instant now);
  bool poll_team(Instant now);
  void on_chunk(Instant now, const device::ReceivedChunk& chunk, device::MulticastQueuePair& pair);

  device::Endpoint& endpoint_;
  OperationQueue& operations_;
  FailureCoordinator& failures_;
  observe::Counters& counters_;
  std::function<void(Instant)> begin_next_;
  std::uint64_t unexpected_bytes_;
  UnexpectedChunks unexpected_;
  std::array<device::ReceivedChunk, 256> chunks_;
  bool drained_ = false;
  std::uint32_t rounds_without_poll_ = 0;  ///< polls since the queue pairs were last polled
  std::unique_ptr<ReceiveTeam> team_;
  ReceiveTeam::GracePeriod stopping_;  ///< while a failure waits for the workers
  Instant stop_check_ = kNever;        ///< set while it does
};

}  // namespace tutti::engine
