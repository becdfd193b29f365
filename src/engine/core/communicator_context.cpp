#include "engine/core/communicator_context.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"

namespace tutti::engine {

namespace {

Settings in_effect(Settings settings, const device::Capabilities& device) {
  const auto bound = [](auto& wanted, auto most) {
    wanted = wanted == 0 ? most : std::min(wanted, most);
  };
  bound(settings.chunk_bytes, device.max_chunk_bytes);
  bound(settings.window_bytes, device.receive_window_bytes);
  return settings;
}

}  // namespace

CommunicatorContext::CommunicatorContext(Rank rank, std::uint32_t size, const Settings& settings,
                                         std::unique_ptr<device::Endpoint> endpoint,
                                         std::vector<std::string> names)
    : rank_(rank),
      size_(size),
      settings_(in_effect(settings, endpoint->capabilities())),
      endpoint_(std::move(endpoint)),
      names_(std::move(names)),
      failures_(rank, size, names_),
      peers_(rank, size, *endpoint_, settings.path_test_interval),
      operations_(settings.first_epoch, counters_),
      barriers_(settings_, endpoint_->capabilities().has(device::Capability::lossless)),
      messages_(*endpoint_, counters_),
      unexpected_chunks_(settings_.window_bytes),
      network_(settings.assumed_bytes_per_second),
      retention_(rank, size, settings_, *endpoint_, messages_, network_, counters_),
      slots_(rank, size, endpoint_->slot_exchange(), messages_, peers_, counters_),
      closing_(size, retention_, slots_, peers_),
      router_(names_, operations_, failures_, messages_, retention_, slots_, counters_) {
  place_here();
}

void CommunicatorContext::place_here() {
  for (std::uint32_t s = 0; s < endpoint_->subgroup_count(); ++s) {
    (void)endpoint_->multicast(s).set_resolver(this);
  }
}

bool CommunicatorContext::poll(Instant now) {
  take_submissions(now);
  if (failures_.settled()) {
    // The failure notices still have to reach the other ranks.
    endpoint_->poll(now, completions_);
    messages_.post_deferred(now);
    discard_multicast();
    return false;
  }
  // Other messages are handled in every kSlotOnlyRounds-th round only.
  constexpr std::uint32_t kSlotOnlyRounds = 16;
  const bool briefly = only_slot_exchange_active() && ++rounds_slot_only_ % kSlotOnlyRounds != 0;
  if (briefly && poll_inline(now)) return operations_.active().empty();
  if (peers_.path_test_due(now)) peers_.test_paths(now, operations_.progress());
  bool worked = poll_endpoint(now);
  messages_.post_deferred(now);
  if (team_) {
    worked |= poll_team(now);
  } else if (expects_multicast()) {
    worked |= poll_multicast(now);
  }
  worked |= poll_operations(now);
  if (!failures_.noted()) {
    closing_.poll(now);
    retention_.serve(now);
  }
  if (failures_.noted() && workers_stopped(now)) {
    settle_failure(now);
    return true;
  }
  return worked;
}

// ---- slot exchanges ----------------------------------------------------------------------------

/// Running the rest of the engine, whose code is cold by then, would cost more than the short
/// collective itself.
bool CommunicatorContext::only_slot_exchange_active() const {
  return operations_.only_slot_exchange() && !messages_.has_deferred() && !failures_.noted() &&
         !team_;
}

void CommunicatorContext::try_start_inline(Instant now, std::unique_ptr<Operation>& operation) {
  const bool first =
      !operations_.has_submissions() && !operations_.has_queued() && operations_.may_begin();
  if (!first || failures_.noted() || team_) return;
  begin(now, std::move(operation));
  poll_inline(now);
}

bool CommunicatorContext::poll_inline(Instant now) {
  if (!only_slot_exchange_active() || operations_.has_submissions()) return false;
  Operation& exchange = *operations_.active().front();
  exchange.poll(now);
  if (exchange.done()) end(now, 0);
  return !failures_.noted();
}

// ---- receive workers ----------------------------------------------------------------------------

Status CommunicatorContext::use_receive_workers(std::uint32_t workers) {
  const std::uint32_t most = endpoint_->subgroup_count();
  if (workers == 0 || workers > most || team_ || operations_.busy()) {
    return failure(Code::internal,
                   "{} receive workers for {} subgroups{}: use 1 to one per subgroup, while idle",
                   workers, most, operations_.busy() ? ", while collectives run" : "");
  }
  if (Status status = endpoint_->use_receive_workers(true); !status) return status;
  team_ = std::make_unique<ReceiveTeam>(*endpoint_, workers, operations_.next_epoch() - 1,
                                        settings_.window_bytes);
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
  fold_received();
  const std::vector<Arrival>& arrivals = team_->take_arrivals();
  if (Operation* operation = operations_.find(team_->epoch()))
    operation->on_arrivals(now, arrivals);
  return true;
}

// A failed collective leaves chunks unmarked, which a worker may be about to place: buffers are
// given back only when no worker uses its view any more.
bool CommunicatorContext::workers_stopped(Instant now) {
  constexpr Nanoseconds kCheckInterval{1'000'000};
  if (!team_) return true;
  if (stop_check_ == kNever) {
    team_->publish({.state = ReceiveView::State::closed, .epoch = operations_.next_epoch() - 1});
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
  for (std::size_t i = 0; i < count; ++i) router_.on_completion(now, completions_[i]);
  return count > 0;
}

/// If no active operation uses multicast, incoming chunks can only belong to later collectives:
/// poll the multicast sockets every 4th round, because each costs a system call.
bool CommunicatorContext::expects_multicast() {
  constexpr std::uint32_t kRoundsWithoutMulticast = 4;
  const bool any = operations_.expects_chunks();
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
  if (chunk.epoch == operations_.next_epoch()) begin_operations(now);
  if (Operation* operation = operations_.find(chunk.epoch)) {
    operation->on_chunk(now, chunk, pair);
    return;
  }
  if (operations_.has_begun(chunk.epoch)) {
    ++counters_.chunks_stale;
    return;
  }
  bool damaged = false;
  if (unexpected_chunks_.keep(chunk, pair, damaged)) {
    ++counters_.chunks_unexpected;
  } else {
    ++(damaged ? counters_.chunks_damaged : counters_.chunks_unexpected_dropped);
    if (every_chunk_arrives()) failures_.fail_without_slow_path(chunk.source);
  }
}

device::Placement CommunicatorContext::landing(const device::MessageHead& chunk, bool begins) {
  if (Operation* operation = operations_.find(chunk.epoch))
    return operation->landing(chunk, begins);
  if (!operations_.has_begun(chunk.epoch)) return {device::Placement::Where::staging};
  if (begins) ++counters_.chunks_stale;
  return {};
}

void CommunicatorContext::take_submissions(Instant now) {
  if (!operations_.has_submissions()) return;
  operations_.take_submissions(failures_.status());
  begin_operations(now);
}

void CommunicatorContext::begin_operations(Instant now) {
  while (operations_.has_queued() && !failures_.noted()) {
    if (!operations_.may_begin()) return;
    begin(now, operations_.take_queued());
  }
}

void CommunicatorContext::begin(Instant now, std::unique_ptr<Operation> begun) {
  const std::uint32_t epoch = operations_.next_epoch();
  Operation& operation = operations_.activate(std::move(begun));
  const Description& what = operation.description();
  recorder_.begin(epoch, what.operation, what.algorithm, what.root, what.bytes, now);
  // A slot exchange starts failure detection itself, once it takes long.
  if (!operation.meets()) peers_.watch_neighbours();
  const bool votes = operation.prepare(*this);
  operation.begin(now, epoch, barriers_.needed(operation, votes), *this, router_);
  if (!unexpected_chunks_.empty()) {
    for (const UnexpectedChunks::Chunk& chunk : unexpected_chunks_.take(epoch)) {
      operation.on_unexpected_chunk(now, chunk.psn, chunk.source, chunk.payload());
    }
  }
  if (team_) team_->publish(operation.receive_view());
  router_.deliver_unexpected(now, operation);
}

bool CommunicatorContext::poll_operations(Instant now) {
  bool worked = false;
  for (std::size_t i = 0; i < operations_.active().size() && !failures_.noted();) {
    Operation& operation = *operations_.active()[i];
    worked |= operation.poll(now);
    if (failures_.noted()) break;
    if (!operation.done()) {
      ++i;
      continue;
    }
    end(now, i);
    worked = true;
  }
  begin_operations(now);
  // Work that the operations posted leaves now rather than in the next round.
  if (worked && !failures_.noted())
    take_completions(now, endpoint_->poll_posted(now, completions_));
  return worked;
}

/// Ends the active operation at `position`, which is done.
void CommunicatorContext::end(Instant now, std::size_t position) {
  std::unique_ptr<Operation> over = operations_.take(position);
  recorder_.enter(over->epoch(), observe::Phase::done, now);
  over->finish();
  if (over->begun_by_all()) retention_.begun_by_all(over->epoch());
  // A closing rank waits for delivery ACKs, so it must notice the death of a rank that owes one.
  if (operations_.idle() && !closing_.begun()) peers_.unwatch_all();
  const bool viewed = team_ && team_->epoch() == over->epoch();
  if (viewed) {
    team_->publish({.state = ReceiveView::State::over, .epoch = over->epoch()});
    team_->set_eager(false);
  }
  operations_.complete(*over, {});
  if (team_) team_->retire(std::move(over));
}

void CommunicatorContext::settle_failure(Instant now) {
  peers_.stop_path_tests();
  fold_received();
  messages_.drop_deferred();
  if (failures_.settle(outbox_)) {
    messages_.send(now, outbox_);
    endpoint_->poll(now, completions_);
  }
  // An operation that is already done completes successfully, even if its last message arrived in
  // the same poll as the failure.
  const std::vector<std::unique_ptr<Operation>> over = operations_.take_done();
  // The callers get their buffers back: no device may read or write them any more.
  endpoint_->abandon();
  std::vector<Status> reasons;
  for (const auto& operation : operations_.active()) {
    recorder_.enter(operation->epoch(), observe::Phase::failed, now);
    reasons.push_back(failures_.status_of(now, *operation));
    operation->finish();
  }
  // The hook runs before any waiter is released, because a waiter may end the process.
  failures_.call_hook(reasons.empty() ? failures_.status() : reasons.front());
  for (const auto& operation : over) {
    recorder_.enter(operation->epoch(), observe::Phase::done, now);
    operation->finish();
    operations_.complete(*operation, {});
  }
  operations_.fail_all(reasons, failures_.status());
}

bool CommunicatorContext::quiet() const { return !messages_.has_deferred() && endpoint_->quiet(); }

Instant CommunicatorContext::next_deadline() const {
  return std::min({endpoint_->next_deadline(), operations_.next_deadline(), peers_.next_deadline(),
                   stop_check_, retention_.next_deadline()});
}

}  // namespace tutti::engine
