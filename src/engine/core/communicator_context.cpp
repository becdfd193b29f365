#include "engine/core/communicator_context.hpp"

#include <algorithm>
#include <utility>

#include "base/circular.hpp"
#include "base/error.hpp"

namespace tutti::engine {

using protocol::MessageKind;

CommunicatorContext::CommunicatorContext(Rank rank, std::uint32_t size, const Settings& settings,
                                         std::unique_ptr<device::Endpoint> endpoint,
                                         std::vector<std::string> names)
    : rank_(rank),
      size_(size),
      settings_(settings),
      endpoint_(std::move(endpoint)),
      slot_exchange_(endpoint_->slot_exchange()),
      slots_lossy_(slot_exchange_ != nullptr && slot_exchange_->loses()),
      names_(std::move(names)),
      chunk_bytes_(endpoint_->capabilities().max_chunk_bytes),
      window_bytes_(endpoint_->capabilities().receive_window_bytes),
      next_epoch_(settings.first_epoch),
      message_buffers_(endpoint_->max_message_bytes()),
      unexpected_chunks_(window_bytes_),
      delivery_acks_(size, settings.first_epoch, settings.ack_delay),
      retained_(rank, *endpoint_, 2 * settings.ack_delay),
      bytes_per_second_(settings.assumed_bytes_per_second),
      path_test_at_(settings.path_test_interval.count() > 0 ? Instant{} : kNever) {
  if (settings.chunk_bytes != 0) chunk_bytes_ = std::min(chunk_bytes_, settings.chunk_bytes);
  if (settings.window_bytes != 0) window_bytes_ = std::min(window_bytes_, settings.window_bytes);
  place_here();
}

void CommunicatorContext::place_here() {
  for (std::uint32_t s = 0; s < endpoint_->subgroup_count(); ++s) {
    (void)endpoint_->multicast(s).set_resolver(this);
  }
}

bool CommunicatorContext::poll(Instant now) {
  take_submissions(now);
  if (!failed_.ok()) {
    // The failure notices still have to reach the other ranks.
    endpoint_->poll(now, completions_);
    post_deferred(now);
    discard_multicast();
    return false;
  }
  // Other messages are handled in every kSlotOnlyRounds-th round only.
  constexpr std::uint32_t kSlotOnlyRounds = 16;
  const bool briefly = only_slot_exchange_active() && ++rounds_slot_only_ % kSlotOnlyRounds != 0;
  if (briefly && poll_inline(now)) return active_.empty();
  if (now >= path_test_at_) test_paths(now);
  bool worked = poll_endpoint(now);
  if (!deferred_.empty()) post_deferred(now);
  if (team_) {
    worked |= poll_team(now);
  } else if (expects_multicast()) {
    worked |= poll_multicast(now);
  }
  worked |= poll_operations(now);
  if (failing_.ok()) serve_retained(now);
  if (!failing_.ok() && workers_stopped(now)) {
    settle_failure(now);
    return true;
  }
  return worked;
}

// ---- slot exchanges ----------------------------------------------------------------------------

/// Running the rest of the engine, whose code is cold by then, would cost more than the short
/// collective itself.
bool CommunicatorContext::only_slot_exchange_active() const {
  return active_.size() == 1 && active_.front()->meets() && queued_.empty() && deferred_.empty() &&
         failing_.ok() && !team_;
}

void CommunicatorContext::try_start_inline(Instant now, std::unique_ptr<Operation>& operation) {
  const bool first = submitted_.empty() && queued_.empty() && clear();
  if (!first || !failed_.ok() || !failing_.ok() || team_) return;
  begin(now, std::move(operation));
  poll_inline(now);
}

bool CommunicatorContext::poll_inline(Instant now) {
  if (!only_slot_exchange_active() || !submitted_.empty()) return false;
  active_.front()->poll(now);
  if (active_.front()->done()) end(now, 0);
  return failing_.ok();
}

// ---- receive workers ----------------------------------------------------------------------------

Status CommunicatorContext::use_receive_workers(std::uint32_t workers) {
  const std::uint32_t most = endpoint_->subgroup_count();
  if (workers == 0 || workers > most || team_ || busy()) {
    return failure(Code::internal,
                   "{} receive workers for {} subgroups{}: use 1 to one per subgroup, while idle",
                   workers, most, busy() ? ", while collectives run" : "");
  }
  if (Status status = endpoint_->use_receive_workers(true); !status) return status;
  team_ = std::make_unique<ReceiveTeam>(*endpoint_, workers, next_epoch_ - 1, window_bytes_);
  return {};
}

void CommunicatorContext::stop_receive_workers() {
  if (!team_) return;
  fold_received();
  team_.reset();
  place_here();
  stop_check_ = kNever;
  // Queue pairs that can no longer be watched are still polled.
  (void)endpoint_->use_receive_workers(false);
}

bool CommunicatorContext::poll_team(Instant now) {
  if (!team_->take_news()) return false;
  if (const Status* failure = team_->failure()) fail(*failure);
  fold_received();
  const std::vector<Arrival>& arrivals = team_->take_arrivals();
  if (Operation* operation = find(team_->epoch())) operation->on_arrivals(now, arrivals);
  return true;
}

// A failed collective leaves chunks unmarked, which a worker may be about to place: buffers are
// given back only when no worker uses its view any more.
bool CommunicatorContext::workers_stopped(Instant now) {
  constexpr Nanoseconds kCheckInterval{1'000'000};
  if (!team_) return true;
  if (stop_check_ == kNever) {
    team_->publish({.state = ReceiveView::State::closed, .epoch = next_epoch_ - 1});
    team_->set_eager(true);
    stopping_ = team_->grace();
  }
  stop_check_ = now + kCheckInterval;
  if (!team_->passed(stopping_)) return false;
  stop_check_ = kNever;
  return true;
}

bool CommunicatorContext::poll_endpoint(Instant now) {
  return take_completions(now, endpoint_->poll(now, completions_));
}

bool CommunicatorContext::take_completions(Instant now, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) on_completion(now, completions_[i]);
  return count > 0;
}

/// If no active operation uses multicast, incoming chunks can only belong to later collectives:
/// poll the multicast sockets every 4th round, because each costs a system call.
bool CommunicatorContext::expects_multicast() {
  constexpr std::uint32_t kRoundsWithoutMulticast = 4;
  const bool any =
      active_.empty() || std::any_of(active_.begin(), active_.end(),
                                     [](const auto& one) { return one->multicast_bytes() > 0; });
  rounds_without_multicast_ = any || rounds_without_multicast_ + 1 == kRoundsWithoutMulticast
                                  ? 0
                                  : rounds_without_multicast_ + 1;
  return rounds_without_multicast_ == 0;
}

bool CommunicatorContext::poll_multicast(Instant now) {
  bool worked = false;
  for (std::uint32_t s = 0; s < endpoint_->subgroup_count(); ++s) {
    device::MulticastQueuePair& pair = endpoint_->multicast(s);
    const std::size_t count = pair.poll(chunks_);
    for (std::size_t i = 0; i < count; ++i) on_chunk(now, chunks_[i], pair);
    if (count > 0) pair.release();
    worked |= count > 0;
  }
  drained_ = !worked;
  return worked;
}

// Unread datagrams would keep the wait descriptor readable and the owner from sleeping.
void CommunicatorContext::discard_multicast() {
  if (team_) {
    (void)team_->take_news();
    return;
  }
  for (std::uint32_t s = 0; s < endpoint_->subgroup_count(); ++s) {
    device::MulticastQueuePair& pair = endpoint_->multicast(s);
    if (pair.poll(chunks_) > 0) pair.release();
  }
}

void CommunicatorContext::on_chunk(Instant now, const device::ReceivedChunk& chunk,
                                   device::MulticastQueuePair& pair) {
  // Chunks after the last one of a collective belong to the next, which may begin now: placing them
  // directly saves the copy of an unexpected chunk.
  if (chunk.epoch == next_epoch_) begin_operations(now);
  if (Operation* operation = find(chunk.epoch)) {
    operation->on_chunk(now, chunk, pair);
    return;
  }
  if (circular_before(chunk.epoch, next_epoch_)) {
    ++counters_.chunks_stale;
    return;
  }
  bool damaged = false;
  if (unexpected_chunks_.keep(chunk, pair, damaged)) {
    ++counters_.chunks_unexpected;
  } else {
    ++(damaged ? counters_.chunks_damaged : counters_.chunks_unexpected_dropped);
    if (every_chunk_arrives()) fail_without_slow_path(chunk.source);
  }
}

void CommunicatorContext::fail_without_slow_path(Rank source) {
  fail(failure(Code::peer_failed,
               "{} sent a chunk that fits no collective here, and chunks are sent once: call the "
               "same collectives in the same order on all ranks",
               name_of(source)));
}

device::Placement CommunicatorContext::landing(const device::MessageHead& chunk, bool begins) {
  if (Operation* operation = find(chunk.epoch)) return operation->landing(chunk, begins);
  if (!circular_before(chunk.epoch, next_epoch_)) return {device::Placement::Where::staging};
  if (begins) ++counters_.chunks_stale;
  return {};
}

void CommunicatorContext::on_peer_failure(const device::Completion& completion) {
  const Rank peer = completion.peer;
  if (const std::uint32_t bytes = completion.undelivered_bytes; bytes > 0) {
    if (failing_.ok()) undelivered_bytes_ = bytes;
    return note_failure(undelivered_status(rank_, peer, bytes), peer, true);
  }
  note_failure(failure(Code::peer_failed,
                       "{} does not answer: it has died, is stopped, or cannot be reached from {}",
                       name_of(peer), name_of(rank_)),
               peer, true);
}

Status CommunicatorContext::undelivered_status(Rank from, Rank to, std::uint32_t bytes) const {
  return failure(Code::peer_failed,
                 "packets of {} bytes do not pass between {} and {}, although shorter ones do: set "
                 "the MTU of the ranks' interfaces to what every switch and firewall between them "
                 "forwards, or raise the MTU of those",
                 bytes, name_of(from), name_of(to));
}

void CommunicatorContext::on_failed_message(Rank lost, Rank from, Rank culprit,
                                            std::uint32_t undelivered_bytes) {
  if (failing_.ok()) culprit_ = culprit;
  const Status status =
      culprit != kNoRank
          ? failure(Code::peer_failed, "rank {} of the job is lost, as reported by {}",
                    index(culprit), name_of(from))
      : undelivered_bytes > 0 ? undelivered_status(from, lost, undelivered_bytes)
      : lost == from
          ? failure(Code::peer_failed, "{} gave up: see its own error for the cause", name_of(lost))
          : failure(Code::peer_failed, "{} is lost, as reported by {}", name_of(lost),
                    name_of(from));
  note_failure(status, lost, false);
}

void CommunicatorContext::take_submissions(Instant now) {
  if (submitted_.empty()) return;
  for (auto& operation : submitted_.take_all()) {
    if (failed_.ok()) {
      queued_.push_back(std::move(operation));
    } else {
      complete(*operation,
               failure(Code::aborted, "the communicator has failed: {}", failed_.message()));
    }
  }
  begin_operations(now);
}

bool CommunicatorContext::barrier_needed(const Operation& operation, bool votes) {
  // The decision is the same on all ranks because it depends on the sequence of collectives alone.
  // Bytes stay unconfirmed until a later collective, or a barrier, proves that every rank has
  // consumed them.
  const std::uint64_t payload = operation.multicast_bytes();
  const std::uint64_t bytes = payload == 0 ? 0 : std::max(payload, kMinUnconfirmedBytes);
  const bool lossless = endpoint_->capabilities().has(device::Capability::lossless);
  const std::uint64_t unexpected = operation.unexpected_bytes();
  const bool barrier =
      (bytes > 0 && (votes || settings_.always_barrier || lossless ||
                     unconfirmed_bytes_ + bytes > window_bytes_)) ||
      (unexpected > 0 && (settings_.always_barrier ||
                          unconfirmed_unexpected_bytes_ + unexpected > kMaxUnexpectedBytes));
  const bool confirmed = barrier || operation.confirms_earlier();
  unconfirmed_bytes_ = confirmed ? bytes : unconfirmed_bytes_ + bytes;
  unconfirmed_unexpected_bytes_ =
      confirmed ? unexpected : unconfirmed_unexpected_bytes_ + unexpected;
  return barrier;
}

void CommunicatorContext::begin_operations(Instant now) {
  while (!queued_.empty() && failed_.ok() && failing_.ok()) {
    if (!clear()) return;
    std::unique_ptr<Operation> next = std::move(queued_.front());
    queued_.pop_front();
    begin(now, std::move(next));
  }
}

/// Whether the next operation may begin.
bool CommunicatorContext::clear() const {
  return std::all_of(active_.begin(), active_.end(),
                     [](const auto& one) { return one->locally_complete(); });
}

void CommunicatorContext::begin(Instant now, std::unique_ptr<Operation> begun) {
  active_.push_back(std::move(begun));
  Operation& operation = *active_.back();
  const std::uint32_t epoch = next_epoch_++;
  const Description& what = operation.description();
  ++counters_.collectives_started;
  recorder_.begin(epoch, what.operation, what.algorithm, what.root, what.bytes, now);
  // A slot exchange starts failure detection itself, once it takes long.
  if (!operation.meets()) watch_neighbours();
  const bool votes = operation.prepare(*this);
  operation.begin(now, epoch, barrier_needed(operation, votes), *this, *this);
  if (!unexpected_chunks_.empty()) {
    for (const UnexpectedChunks::Chunk& chunk : unexpected_chunks_.take(epoch)) {
      operation.on_unexpected_chunk(now, chunk.psn, chunk.source, chunk.payload());
    }
  }
  if (team_) team_->publish(operation.receive_view());
  deliver_pending(now, operation);
}

bool CommunicatorContext::poll_operations(Instant now) {
  bool worked = false;
  for (std::size_t i = 0; i < active_.size() && failing_.ok();) {
    Operation& operation = *active_[i];
    worked |= operation.poll(now);
    if (!failing_.ok()) break;
    if (!operation.done()) {
      ++i;
      continue;
    }
    end(now, i);
    worked = true;
  }
  begin_operations(now);
  // Work that the operations posted leaves now rather than in the next round.
  if (worked && failing_.ok()) take_completions(now, endpoint_->poll_posted(now, completions_));
  return worked;
}

/// Ends the active operation at `position`, which is done.
void CommunicatorContext::end(Instant now, std::size_t position) {
  std::unique_ptr<Operation> over = std::move(active_[position]);
  recorder_.enter(over->epoch(), observe::Phase::done, now);
  over->finish();
  if (over->begun_by_all()) {
    delivery_acks_.begun_by_all(over->epoch());
    retained_.release(delivery_acks_);
  }
  active_.erase(active_.begin() + static_cast<std::ptrdiff_t>(position));
  if (active_.empty() && queued_.empty()) stop_watching();
  const bool viewed = team_ && team_->epoch() == over->epoch();
  if (viewed) {
    team_->publish({.state = ReceiveView::State::over, .epoch = over->epoch()});
    team_->set_eager(false);
  }
  complete(*over, {});
  if (team_) team_->retire(std::move(over));
}

void CommunicatorContext::complete(Operation& operation, const Status& status) {
  ++(status.ok() ? counters_.collectives_completed : counters_.collectives_failed);
  Completion& completion = *operation.completion();
  completion.status = status;
  if (completion.callback) completion.callback(status);
  completion.done.store(true, std::memory_order_release);
}

void CommunicatorContext::watch(Rank peer) {
  if (peer == rank_ || std::find(watched_.begin(), watched_.end(), peer) != watched_.end()) return;
  watched_.push_back(peer);
  endpoint_->watch(peer, true);
}

void CommunicatorContext::watch_all() {
  for (std::uint32_t r = 0; r < size_; ++r) watch(rank_of(r));
}

void CommunicatorContext::unwatch(Rank peer) {
  std::erase(watched_, peer);
  endpoint_->watch(peer, false);
}

/// Missing chunks or slots alone make no rank send a long frame, so a path that loses them shows
/// only by a test; collectives that progress cause none.
void CommunicatorContext::test_paths(Instant now) {
  std::uint64_t progress = counters_.collectives_started + counters_.collectives_completed;
  for (const auto& operation : active_) progress += operation->completion()->chunks_present;
  if (std::exchange(progress_, progress) == progress) {
    for (const Rank peer : watched_) endpoint_->test_path(peer);
  }
  path_test_at_ = now + settings_.path_test_interval;
}

void CommunicatorContext::watch_neighbours() {
  const std::uint32_t me = index(rank_);
  watch(rank_of((me + 1) % size_));
  watch(rank_of((me + size_ - 1) % size_));
}

void CommunicatorContext::stop_watching() {
  // A closing rank waits for delivery ACKs, so that it must notice the death of a rank that owes
  // one.
  if (closing_) return;
  for (const Rank peer : watched_) endpoint_->watch(peer, false);
  watched_.clear();
}

Operation* CommunicatorContext::find(std::uint32_t epoch) {
  for (const auto& operation : active_) {
    if (operation->epoch() == epoch) return operation.get();
  }
  return nullptr;
}

Status CommunicatorContext::failure_of(Instant now, const Operation& operation,
                                       const Status& cause) const {
  const Description& what = operation.description();
  std::string text = fmt::format("{} #{} ({}", what.operation, operation.epoch(), what.algorithm);
  if (what.root != kNoRank) text += fmt::format(", root {}", index(what.root));
  text +=
      fmt::format(", {} bytes) at {} in phase {} after {:.3f} s: {}", what.bytes, name_of(rank_),
                  observe::to_string(operation.phase()),
                  static_cast<double>((now - operation.started()).count()) / 1e9, cause.message());
  const std::string missing = operation.missing();
  if (!missing.empty()) text += "; missing here: " + missing;
  return Status(cause.code(), text);
}

void CommunicatorContext::note_failure(const Status& status, Rank lost, bool notify_peers) {
  // Only the first failure is the cause; later ones are its consequences.
  if (!failing_.ok()) return;
  failing_ = status;
  lost_ = lost;
  notify_peers_ = notify_peers;
}

void CommunicatorContext::fail(const Status& status) { note_failure(status, rank_, true); }

void CommunicatorContext::abort(const std::string& reason) {
  fail(failure(Code::aborted, "aborted by {}: {}", name_of(rank_), reason));
}

void CommunicatorContext::abort_for(Rank culprit, const std::string& reason) {
  if (failing_.ok()) culprit_ = culprit;
  fail(failure(Code::aborted, "given up by {}: {}", name_of(rank_), reason));
}

void CommunicatorContext::settle_failure(Instant now) {
  const Status status = failing_;
  std::vector<std::unique_ptr<Operation>> over;
  failed_ = status;
  path_test_at_ = kNever;
  fold_received();
  drop_deferred();
  if (notify_peers_) {
    for (std::uint32_t r = 0; r < size_; ++r) {
      if (rank_of(r) == rank_ || (rank_of(r) == lost_ && undelivered_bytes_ == 0)) continue;
      const std::uint64_t culprit = culprit_ == kNoRank ? 0 : index(culprit_) + 1;
      outbox_.send(rank_of(r), MessageKind::failed, undelivered_bytes_,
                   culprit << 32 | index(lost_));
    }
    send(now, outbox_);
    endpoint_->poll(now, completions_);
  }
  // An operation that is already done completes successfully, even if its last message arrived in
  // the same poll as the failure.
  for (auto& operation : active_) {
    if (operation->done()) over.push_back(std::move(operation));
  }
  std::erase(active_, nullptr);
  // The callers get their buffers back: no device may read or write them any more.
  endpoint_->abandon();
  std::vector<Status> reasons;
  for (auto& operation : active_) {
    recorder_.enter(operation->epoch(), observe::Phase::failed, now);
    reasons.push_back(failure_of(now, *operation, status));
    operation->finish();
  }
  // The hook runs before any waiter is released, because a waiter may end the process.
  if (failure_hook_) failure_hook_(reasons.empty() ? status : reasons.front());
  for (auto& operation : over) {
    recorder_.enter(operation->epoch(), observe::Phase::done, now);
    operation->finish();
    complete(*operation, {});
  }
  for (std::size_t i = 0; i < active_.size(); ++i) complete(*active_[i], reasons[i]);
  active_.clear();
  for (auto& operation : queued_) {
    complete(*operation,
             failure(Code::aborted, "not begun, because the communicator has failed: {}",
                     status.message()));
  }
  queued_.clear();
}

void CommunicatorContext::observe_rate(std::uint64_t bytes, Nanoseconds time) {
  if (time.count() <= 0 || bytes < 65536) return;
  const auto sample = static_cast<std::uint64_t>(static_cast<double>(bytes) * 1e9 /
                                                 static_cast<double>(time.count()));
  bytes_per_second_ = (bytes_per_second_ * 3 + std::max<std::uint64_t>(sample, 1)) / 4;
}

std::string CommunicatorContext::name_of(Rank rank) const {
  if (index(rank) < names_.size() && !names_[index(rank)].empty()) {
    return fmt::format("rank {} ({})", index(rank), names_[index(rank)]);
  }
  return fmt::format("rank {}", index(rank));
}

bool CommunicatorContext::begins_together() const {
  return std::any_of(active_.begin(), active_.end(),
                     [](const auto& operation) { return operation->begins_together(); });
}

bool CommunicatorContext::quiet() const { return deferred_.empty() && endpoint_->quiet(); }

bool CommunicatorContext::blocked() const {
  return std::any_of(active_.begin(), active_.end(),
                     [](const auto& operation) { return operation->blocked(); });
}

Instant CommunicatorContext::next_deadline() const {
  Instant deadline = std::min(
      {endpoint_->next_deadline(), stop_check_, delivery_acks_.due(), retained_.next_deadline()});
  for (const auto& operation : active_) {
    deadline = std::min(deadline, operation->next_deadline());
  }
  if (!watched_.empty()) deadline = std::min(deadline, path_test_at_);
  return deadline;
}

}  // namespace tutti::engine
