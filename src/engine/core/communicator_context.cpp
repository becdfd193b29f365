#include "engine/core/communicator_context.hpp"

#include <algorithm>
#include <span>
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

/// Stops the peers from using the callers' buffers, because the callers get these buffers back.
void release_buffers(const OperationQueue& operations, TaggedMessages& tagged) {
  for (const auto& operation : operations.active()) operation->finish();
  tagged.release_memory();
}

/// Posts the failure notices. All other work is given up first, so that it does not delay the
/// notices.
void post_notices(Instant now, device::Endpoint& endpoint, MessageSender& messages,
                  protocol::Outbox& notices) {
  endpoint.abandon();
  messages.send(now, notices);
}

/// Fails the communicator if a rank has closed it without beginning a collective that is active
/// here. The closed rank is no longer watched, so otherwise the collective would never end.
void fail_if_closed_without(const OperationQueue& operations, const ClosedPeers& closed,
                            FailureCoordinator& failures) {
  for (const auto& operation : operations.active()) {
    const Rank absent = closed.before(operation->epoch());
    if (absent != kNoRank) return failures.fail_without(absent);
  }
}

}  // namespace

CommunicatorContext::CommunicatorContext(Rank rank, std::uint32_t size, const Settings& settings,
                                         std::unique_ptr<device::Endpoint> endpoint,
                                         RankNames names)
    : rank_(rank),
      size_(size),
      settings_(in_effect(settings, endpoint->capabilities())),
      endpoint_(std::move(endpoint)),
      names_(std::move(names)),
      operations_(settings.first_epoch, counters_),
      barriers_(settings_, endpoint_->capabilities().has(device::Capability::lossless)),
      failures_(rank, size, names_),
      closed_(size),
      peers_(rank, size, *endpoint_, closed_, settings.path_test_interval),
      network_(settings.assumed_bytes_per_second),
      messages_(*endpoint_, counters_),
      tagged_(rank, size, *endpoint_, messages_, peers_, failures_, names_, counters_),
      retention_(rank, size, settings_, *endpoint_, messages_, network_, counters_),
      slots_(size, endpoint_->slot_exchange(), messages_, closed_, counters_),
      closing_(rank, size, *endpoint_, messages_, retention_, slots_, peers_, closed_),
      router_(names_, operations_, failures_, messages_, tagged_, retention_, slots_, closing_,
              counters_),
      receiver_(size, *endpoint_, operations_, failures_, counters_, settings_.window_bytes,
                [this](Instant now) { begin_operations(now); }) {
  endpoint_->use_matcher(&router_);
}

void CommunicatorContext::limit_datagrams(std::uint32_t bytes) {
  endpoint_->limit_datagrams(bytes);
  settings_ = in_effect(settings_, endpoint_->capabilities());
}

bool CommunicatorContext::poll(Instant now) {
  if (operations_.has_submissions()) {
    operations_.take_submissions(failures_.status());
    begin_operations(now);
  }
  if (failures_.settled()) {
    // A failed communicator is still polled, because its failure notices have to reach the other
    // ranks.
    endpoint_->poll(now, completions_);
    if (!notices_.empty()) post_notices(now, *endpoint_, messages_, notices_);
    messages_.post_deferred(now);
    receiver_.discard();
    // An exception may have interrupted `settle_failure`, so its remaining steps are done here.
    failures_.call_hooks(failures_.status());
    if (operations_.idle() && !tagged_.busy()) return false;
    release_buffers(operations_, tagged_);
    operations_.fail_all({}, failures_.status());
    tagged_.fail_all(failures_.status());
    return true;
  }
  // While a slot exchange is the only work, other messages are handled in every kSlotOnlyRounds-th
  // round only.
  constexpr std::uint32_t kSlotOnlyRounds = 16;
  const bool briefly = only_slot_exchange_active() && ++rounds_slot_only_ % kSlotOnlyRounds != 0;
  if (briefly && poll_inline(now)) return operations_.active().empty();
  if (peers_.path_test_due(now))
    peers_.test_paths(now, operations_.progress() + tagged_.progress());
  const bool awaited_messages = tagged_.busy();
  // After a failure no receive begins: it could match a message whose data were not stored, because
  // the message exceeded a limit.
  bool worked = awaited_messages && !failures_.noted() && tagged_.poll(now);
  (void)messages_.take_posted();  // cleared, because the poll below sends the posted messages
  worked |= router_.take(now, std::span(completions_).first(endpoint_->poll(now, completions_)));
  tagged_.retry_reads(now);
  messages_.post_deferred(now);
  if (closed_.count() > 0) {
    fail_if_closed_without(operations_, closed_, failures_);
    if (Status gone = tagged_.closed_without(closed_); !gone) failures_.fail_because(gone);
  }
  // The chunks of a closed rank are taken before an operation judges that it has sent none.
  worked |= receiver_.poll(now, awaited_messages, closed_.count() > 0);
  bool posted = poll_operations(now);
  worked |= posted;
  posted |= messages_.take_posted();
  // Sends at once what this round has posted, because the next round may come late: this thread
  // stops polling once its own call has ended. The second poll sends the messages that follow from
  // the completions of the first poll.
  for (int polls = 0; polls < 2 && posted && !failures_.noted(); ++polls) {
    worked |=
        router_.take(now, std::span(completions_).first(endpoint_->poll_posted(now, completions_)));
    posted = messages_.take_posted();
  }
  if (awaited_messages && !awaits_peers()) peers_.unwatch_all();
  if (!failures_.noted()) {
    closing_.poll(now);
    retention_.serve(now);
  }
  if (failures_.noted() && receiver_.workers_stopped(now)) {
    settle_failure(now);
    return true;
  }
  return worked;
}

/// While this function returns true, most rounds poll only the slot exchange. The rest of the
/// engine is then no longer in the CPU's cache, and polling it would take longer than the
/// collective itself.
bool CommunicatorContext::only_slot_exchange_active() const {
  return operations_.only_slot_exchange() && !messages_.has_deferred() && !tagged_.busy() &&
         !failures_.noted() && !receiver_.has_workers();
}

void CommunicatorContext::try_start_inline(Instant now, std::unique_ptr<Operation>& operation) {
  const bool first =
      !operations_.has_submissions() && !operations_.has_queued() && operations_.may_begin();
  if (!first || failures_.noted() || receiver_.has_workers()) return;
  operations_.make_room();
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

void CommunicatorContext::begin_operations(Instant now) {
  while (operations_.has_queued() && !failures_.noted()) {
    if (!operations_.may_begin()) return;
    operations_.make_room();
    begin(now, operations_.take_queued());
  }
}

void CommunicatorContext::begin(Instant now, std::unique_ptr<Operation> begun) {
  const std::uint32_t epoch = operations_.next_epoch();
  Operation& operation = operations_.activate(std::move(begun));
  try {
    start(now, epoch, operation);
  } catch (...) {
    operations_.set_aside_last();
    throw;
  }
  receiver_.begin(now, operation);
  router_.deliver_unexpected(now, operation);
}

void CommunicatorContext::start(Instant now, std::uint32_t epoch, Operation& operation) {
  const Description& what = operation.description();
  recorder_.begin(epoch, what.operation, what.algorithm, what.root, what.bytes, now);
  // A slot exchange does not need watched neighbours: the operation itself watches its peers if it
  // takes long.
  if (!operation.meets()) peers_.watch_neighbours();
  if (auto* priorities = endpoint_->priorities()) priorities->add(operation.priority());
  const bool votes = operation.prepare(*this);
  operation.begin(now, epoch, barriers_.decide(operation, votes), *this, router_);
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
  return worked;
}

/// Ends the operation with index `position` among the active ones. That operation must be done.
void CommunicatorContext::end(Instant now, std::size_t position) {
  // The steps that may throw come first: after an exception the collective is still active, and
  // the failure ends it.
  const Operation& done = *operations_.active()[position];
  if (done.begun_by_all()) retention_.begun_by_all(done.epoch());
  const ChunkReceiver::Rest rest = receiver_.end(done.epoch());
  std::unique_ptr<Operation> over = operations_.take(position);
  recorder_.enter(over->epoch(), observe::Phase::done, now);
  over->finish();
  if (!awaits_peers()) peers_.unwatch_all();
  Operation& ended = *over;
  if (rest) *rest = std::move(over);
  operations_.complete(ended, {});
}

void CommunicatorContext::settle_failure(Instant now) {
  peers_.stop_path_tests();
  receiver_.fold_counts();
  messages_.drop_deferred();
  failures_.settle(notices_);
  post_notices(now, *endpoint_, messages_, notices_);
  endpoint_->poll(now, completions_);
  // An operation that is already done completes successfully. A schedule or slot exchange becomes
  // done only in its next poll, so it fails if its last message arrived in the same poll as the
  // failure.
  std::vector<Status> results;
  Status first;  // error of the oldest collective that the failure ends
  for (const auto& operation : operations_.active()) {
    results.push_back(operation->done() ? Status() : failures_.status_of(now, *operation));
    if (first.ok()) first = results.back();
  }
  release_buffers(operations_, tagged_);
  for (std::size_t i = 0; i < results.size(); ++i) {
    recorder_.enter(operations_.active()[i]->epoch(),
                    results[i].ok() ? observe::Phase::done : observe::Phase::failed, now);
  }
  // The failure hooks run before any waiting thread is released, because that thread may end the
  // process.
  failures_.call_hooks(first.ok() ? failures_.status() : first);
  operations_.fail_all(results, failures_.status());
  tagged_.fail_all(failures_.status());
}

Instant CommunicatorContext::next_deadline() const {
  // A failed communicator sends no more delivery ACKs and serves no requests.
  const Instant retention = failures_.noted() ? kNever : retention_.next_deadline();
  return std::min({endpoint_->next_deadline(), operations_.next_deadline(), peers_.next_deadline(),
                   receiver_.next_deadline(), retention});
}

}  // namespace tutti::engine
