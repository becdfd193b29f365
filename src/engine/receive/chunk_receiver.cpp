#include "engine/receive/chunk_receiver.hpp"

#include <vector>

#include "base/error.hpp"

namespace tutti::engine {

ChunkReceiver::ChunkReceiver(std::uint32_t size, device::Endpoint& endpoint,
                             OperationQueue& operations, FailureCoordinator& failures,
                             observe::Counters& counters, std::uint64_t unexpected_bytes,
                             std::function<void(Instant)> begin_next)
    : endpoint_(endpoint),
      operations_(operations),
      failures_(failures),
      counters_(counters),
      membership_(size, endpoint, counters),
      begin_next_(std::move(begin_next)),
      unexpected_bytes_(unexpected_bytes),
      unexpected_(unexpected_bytes) {
  set_resolver();
}

void ChunkReceiver::set_resolver() {
  for (std::uint32_t s = 0; s < endpoint_.subgroup_count(); ++s) {
    (void)endpoint_.multicast(s).set_resolver(this);
  }
}

Status ChunkReceiver::use_workers(std::uint32_t workers) {
  const std::uint32_t most = endpoint_.subgroup_count();
  if (workers == 0 || workers > most || team_ || operations_.busy()) {
    return failure(Code::internal, "cannot start {} receive workers for {} subgroups: {}", workers,
                   most,
                   operations_.busy() ? "start them before the first collective"
                   : team_            ? "start them only once"
                                      : "start at least 1, and at most 1 per subgroup");
  }
  if (Status status = endpoint_.use_receive_workers(true); !status) return status;
  team_ = std::make_unique<ReceiveTeam>(endpoint_, workers, operations_.next_epoch() - 1,
                                        unexpected_bytes_);
  return {};
}

void ChunkReceiver::stop_workers() {
  if (!team_) return;
  fold_counts();
  team_.reset();
  set_resolver();
  stop_check_ = kNever;
  // An error is ignored: it means that the endpoint cannot watch a queue pair again, but `poll`
  // reads every queue pair, watched or not.
  (void)endpoint_.use_receive_workers(false);
}

bool ChunkReceiver::poll(Instant now, bool awaits_messages, bool in_any_case) {
  if (team_) return poll_team(now);
  return (next_round_polls(awaits_messages) || in_any_case) && poll_queue_pairs(now);
}

bool ChunkReceiver::poll_team(Instant now) {
  if (!team_->take_news()) return false;
  if (const Status* failure = team_->failure()) failures_.fail(*failure);
  while (const auto misfit = team_->take_misfit()) {
    // If the collective has ended at this rank, the chunk is merely stale. Otherwise the sender has
    // called the collective with other sizes, which is a failure.
    if (operations_.find(misfit->epoch) != nullptr)
      failures_.fail_with_other_sizes(misfit->source, misfit->bytes);
  }
  fold_counts();
  const std::vector<Arrival>& arrivals = team_->take_arrivals();
  // An arrival may belong to any active collective, not only to the last one begun. So every active
  // collective gets all arrivals and picks those of its own epoch.
  for (const auto& operation : operations_.active()) operation->on_arrivals(now, arrivals);
  return true;
}

/// Counts a round of work and returns true if this round polls the multicast queue pairs. While
/// this rank awaits messages but no chunks, only one round in kRoundsPerPoll polls, because a
/// poll costs a system call for each queue pair.
bool ChunkReceiver::next_round_polls(bool awaits_messages) {
  constexpr std::uint32_t kRoundsPerPoll = 4;
  const bool idle = operations_.active().empty() && !awaits_messages;
  const bool poll =
      idle || operations_.expects_chunks() || rounds_without_poll_ + 1 == kRoundsPerPoll;
  rounds_without_poll_ = poll ? 0 : rounds_without_poll_ + 1;
  return poll;
}

bool ChunkReceiver::poll_queue_pairs(Instant now) {
  bool worked = false;
  for (std::uint32_t s = 0; s < endpoint_.subgroup_count(); ++s) {
    device::MulticastQueuePair& pair = endpoint_.multicast(s);
    const std::size_t count = pair.poll(chunks_);
    for (std::size_t i = 0; i < count; ++i) on_chunk(now, chunks_[i], pair);
    if (count > 0) pair.release();
    worked |= count > 0;
  }
  drained_ = !worked;
  return worked;
}

void ChunkReceiver::discard() {
  if (team_) {
    (void)team_->take_news();
    return;
  }
  for (std::uint32_t s = 0; s < endpoint_.subgroup_count(); ++s) {
    device::MulticastQueuePair& pair = endpoint_.multicast(s);
    if (pair.poll(chunks_) > 0) pair.release();
  }
}

void ChunkReceiver::on_chunk(Instant now, const device::ReceivedChunk& chunk,
                             device::MulticastQueuePair& pair) {
  // Earlier chunks of this poll may have completed the present collective. If so, the next
  // collective begins here, and its chunk is placed at once instead of being stored as an
  // unexpected chunk.
  if (chunk.epoch == operations_.next_epoch()) begin_next_(now);
  if (Operation* operation = operations_.find(chunk.epoch)) {
    operation->on_chunk(now, chunk, pair);
    return;
  }
  if (operations_.has_begun(chunk.epoch)) {
    ++counters_.chunks_stale;
    // A chunk that is not needed is verified only while multicast may be lost: an authentic one
    // shows that it is not.
    if (membership_.suspects(chunk.source) && pair.copy_and_verify(chunk, nullptr))
      membership_.heard(chunk.source);
    return;
  }
  using Kept = UnexpectedChunks::Kept;
  const Kept kept = unexpected_.keep(chunk, pair);
  if (kept == Kept::stored) ++counters_.chunks_unexpected;
  if (kept == Kept::duplicate) ++counters_.chunks_duplicate;
  if (kept == Kept::damaged) ++counters_.chunks_damaged;
  if (kept == Kept::no_room) ++counters_.chunks_unexpected_dropped;
  const bool lost = kept == Kept::damaged || kept == Kept::no_room;
  if (lost && endpoint_.capabilities().has(device::Capability::every_chunk_arrives))
    failures_.fail_without_slow_path(chunk.source);
}

device::Placement ChunkReceiver::landing(const device::MessageHead& chunk, bool begins) {
  if (Operation* operation = operations_.find(chunk.epoch))
    return operation->landing(chunk, begins);
  if (!operations_.has_begun(chunk.epoch)) return {device::Placement::Where::staging};
  if (begins) ++counters_.chunks_stale;
  return {};
}

void ChunkReceiver::begin(Instant now, Operation& operation) {
  if (!unexpected_.empty()) {
    for (const UnexpectedChunks::Chunk& chunk : unexpected_.take(operation.epoch())) {
      operation.on_unexpected_chunk(now, chunk.psn, chunk.source, chunk.payload());
    }
  }
  if (team_) team_->publish(operation.receive_view());
}

ChunkReceiver::Rest ChunkReceiver::end(std::uint32_t epoch) {
  if (!team_) return nullptr;
  auto rest = std::make_shared<std::unique_ptr<Operation>>();
  if (team_->epoch() == epoch) {
    team_->publish({.state = ReceiveView::State::over, .epoch = epoch});
    team_->set_eager(false);
  }
  team_->retire(rest);
  return rest;
}

// A worker may be about to place one of the missing chunks of a failed collective. So the caller
// gets the buffer of this collective back only when no worker uses the collective's receive view
// any more.
bool ChunkReceiver::workers_stopped(Instant now) {
  constexpr Nanoseconds kCheckInterval{1'000'000};
  if (!team_) return true;
  if (stop_check_ == kNever) {
    team_->publish({.state = ReceiveView::State::closed, .epoch = operations_.next_epoch() - 1});
    team_->set_eager(true);
    stopping_ = team_->grace();  // if this throws, the next call tries again
  }
  stop_check_ = now + kCheckInterval;
  if (!team_->passed(stopping_)) return false;
  stop_check_ = kNever;
  return true;
}

}  // namespace tutti::engine
