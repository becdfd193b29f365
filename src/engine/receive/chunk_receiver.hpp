// The chunk receiver takes the chunks that arrive by multicast, in `poll` or through receive
// workers that the caller's threads run. It hands each chunk to its collective, and stores chunks
// of collectives that this rank has not begun.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "device/device.hpp"
#include "engine/core/group_membership.hpp"
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
  /// `begin_next` begins queued collectives if they may begin. `unexpected_bytes` limits the stored
  /// chunks of later collectives. The referenced objects must outlive this one.
  ChunkReceiver(std::uint32_t size, device::Endpoint& endpoint, OperationQueue& operations,
                FailureCoordinator& failures, observe::Counters& counters,
                std::uint64_t unexpected_bytes, std::function<void(Instant)> begin_next);

  /// Hands the receive sides of the multicast queue pairs to `workers` receive workers, which the
  /// caller's threads run from now on. No collective may be in progress; fails with
  /// Code::unsupported if the device does not support receive workers.
  Status use_workers(std::uint32_t workers);
  /// Takes the receive sides of the multicast queue pairs back from the receive workers. The
  /// threads that ran the workers must have ended.
  void stop_workers();
  /// The receive workers; null if there are none.
  ReceiveTeam* team() { return team_.get(); }
  bool has_workers() const { return team_ != nullptr; }
  /// Whether the receive workers have something to report to `poll`: placed chunks, an answer to
  /// `request_drain`, a released read guard or a failure.
  bool has_news() const { return team_ && team_->has_news(); }
  /// Adds the receive workers' counts to the communicator's counters.
  void fold_counts() {
    if (team_) team_->fold(counters_);
  }

  GroupMembership& membership() { return membership_; }
  /// Takes the chunks that have arrived; returns whether there were any. `awaits_messages`: whether
  /// this rank waits for tagged messages. `in_any_case`: false allows to leave out rounds.
  bool poll(Instant now, bool awaits_messages, bool in_any_case);
  /// Drops the chunks that have arrived; called after a failure. Unread datagrams would keep the
  /// wait descriptor readable, so that the owner could not sleep.
  void discard();
  /// True if the last poll of the multicast queue pairs found nothing, so that no missing chunk
  /// waits there unread.
  bool drained() const { return drained_; }
  /// Asks the receive workers to poll, and returns the number of the request; 0 without workers.
  std::uint64_t request_drain() { return team_ ? team_->request_drain() : 0; }
  /// True once every worker has answered the request `drain` by a poll that found nothing. Without
  /// workers, the same as `drained`.
  bool looked(std::uint64_t drain) const { return team_ ? team_->looked(drain) : drained_; }

  /// Called when a collective has begun: delivers its chunks that arrived earlier.
  void begin(Instant now, Operation& operation);
  /// Storage for a collective that has ended. The collective is destroyed when no worker uses it
  /// any more.
  using Rest = std::shared_ptr<std::unique_ptr<Operation>>;
  /// Called before a collective ends. Returns the storage to which the caller then moves the
  /// collective; null if there are no workers.
  Rest end(std::uint32_t epoch);
  /// Called after a failure: true if no worker places chunks any more, so that the buffers may be
  /// given back.
  bool workers_stopped(Instant now);
  /// The time at which `workers_stopped` must be called again.
  Instant next_deadline() const { return stop_check_; }

 private:
  void set_resolver();
  device::Placement landing(const device::MessageHead& chunk, bool begins) override;
  bool next_round_polls(bool awaits_messages);
  bool poll_queue_pairs(Instant now);
  bool poll_team(Instant now);
  void on_chunk(Instant now, const device::ReceivedChunk& chunk, device::MulticastQueuePair& pair);

  device::Endpoint& endpoint_;
  OperationQueue& operations_;
  FailureCoordinator& failures_;
  observe::Counters& counters_;
  GroupMembership membership_;
  std::function<void(Instant)> begin_next_;
  std::uint64_t unexpected_bytes_;
  UnexpectedChunks unexpected_;
  std::array<device::ReceivedChunk, 256> chunks_;
  bool drained_ = false;
  /// Number of rounds since the queue pairs were last polled.
  std::uint32_t rounds_without_poll_ = 0;
  std::unique_ptr<ReceiveTeam> team_;
  /// Grace period that begins after a failure; when it has passed, no worker places chunks any
  /// more.
  ReceiveTeam::GracePeriod stopping_;
  /// Time of the next check whether all workers have stopped after a failure; kNever: no check is
  /// due.
  Instant stop_check_ = kNever;
};

}  // namespace tutti::engine
