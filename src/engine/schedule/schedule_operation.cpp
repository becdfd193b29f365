#include "engine/schedule/schedule_operation.hpp"

#include <algorithm>
#include <cstring>

#include "base/error.hpp"
#include "engine/core/communicator_context.hpp"
#include "engine/schedule/closed_peer.hpp"
#include "engine/schedule/unexpected_bound.hpp"
#include "schedule/text.hpp"

namespace tutti::engine {

using schedule::Buffer;
using schedule::Extent;
using schedule::Match;
using schedule::Task;
using schedule::TaskKind;
using schedule::Transfer;

namespace {

bool executable(TaskKind kind) {
  return kind != TaskKind::write && kind != TaskKind::read && kind != TaskKind::multicast &&
         kind != TaskKind::collect;
}

/// Checks that every task of the schedule stays within the buffers.
Status check_extents(const ScheduleCall& call, const ScheduleWorkspace& space) {
  const std::array<std::uint64_t, schedule::kBufferKinds> room = {
      0, call.send.size(), call.receive.size(), space.scratch.size()};
  for (schedule::TaskIndex t = 0; t < space.filled.size(); ++t) {
    for (const Extent* extent : {&space.filled[t].source, &space.filled[t].target}) {
      const std::uint64_t bytes = room[static_cast<std::size_t>(extent->buffer)];
      if (extent->offset_bytes > bytes || extent->size_bytes > bytes - extent->offset_bytes) {
        return failure(
            Code::invalid_argument,
            "{} needs {} bytes from offset {} on in the {} buffer, which has {} bytes: pass "
            "a buffer of the size that the counts require",
            schedule::describe(*call.schedule, t), extent->size_bytes, extent->offset_bytes,
            to_string(extent->buffer), bytes);
      }
    }
  }
  return {};
}

/// Whether this rank's contribution is multiplied by a factor.
bool scales(const std::optional<reduction::Reducer>& reducer) {
  return reducer && reducer->operation() == ReduceOperation::premultiplied_sum;
}

/// Multiplies each block by the rank's factor. The blocks have different sizes, and their offsets
/// need not be multiples of the element size.
void scale_blocks(const ScheduleCall& call, const reduction::Reducer& reducer,
                  std::vector<std::byte>& contribution) {
  const schedule::BlockSizes& blocks = call.shape.of(Buffer::send);
  contribution.resize(call.send.size());
  for (std::size_t b = 0; b < blocks.sizes_bytes.size(); ++b) {
    const std::uint64_t offset = blocks.offsets_bytes[b];
    reducer.prepare(contribution.data() + offset, call.send.data() + offset,
                    blocks.sizes_bytes[b] / element_bytes(reducer.type()),
                    call.reduction->factor.data());
  }
}

}  // namespace

// ---- One call -----------------------------------------------------------------------------------

Result<std::unique_ptr<ScheduleOperation>> ScheduleOperation::create(
    ScheduleCall call, std::shared_ptr<WorkspacePool> pool) {
  for (schedule::TaskIndex t = 0; t < call.schedule->tasks().size(); ++t) {
    if (!executable(call.schedule->tasks()[t].kind))
      return failure(Code::unsupported,
                     "the engine cannot carry out {}: use an algorithm without write, read, "
                     "multicast and collect tasks",
                     schedule::describe(*call.schedule, t));
  }
  std::unique_ptr<ScheduleOperation> operation(
      new ScheduleOperation(std::move(call), std::move(pool)));
  if (Status status = operation->prepare_call(); !status) return status;
  return operation;
}

ScheduleOperation::ScheduleOperation(ScheduleCall call, std::shared_ptr<WorkspacePool> pool)
    : Operation(call.description),
      call_(std::move(call)),
      pool_(std::move(pool)),
      space_(pool_->take()),
      memory_(call_.send, call_.receive, *space_) {}

/// In a collective without a root each rank needs data of all others. So the end of the collective
/// at one rank proves that every rank has begun the collective.
bool ScheduleOperation::confirms_earlier() const {
  return !has_root(call_.schedule->purpose().collective);
}

ScheduleOperation::~ScheduleOperation() { pool_->give_back(std::move(space_)); }

Status ScheduleOperation::prepare_call() {
  const schedule::Schedule& schedule = *call_.schedule;
  ScheduleWorkspace& space = *space_;
  if (call_.reduction) {
    auto reducer = reduction::Reducer::create(call_.reduction->operation, call_.reduction->type);
    if (!reducer) return reducer.status();
    reducer_ = *reducer;
  }
  const schedule::Purpose& purpose = schedule.purpose();
  const bool scatters = purpose.collective == schedule::Collective::reduce_scatter ||
                        purpose.collective == schedule::Collective::reduce_scatterv;
  // A multiplication in place would change blocks that the result does not overwrite, so the
  // products go to a copy.
  if (scales(reducer_) && scatters) call_.shape.in_place = false;
  space.filled.resize(schedule.tasks().size());
  if (Status status = fill(schedule, call_.shape, space.filled); !status) return status;
  space.scratch.resize(scratch_bytes(schedule, call_.shape));
  if (Status status = check_extents(call_, space); !status) return status;
  if (call_.shape.in_place) alias_ = in_place_alias(purpose);
  if (reducer_ && (!has_root(purpose.collective) || purpose.rank == purpose.root)) {
    auto result = resolve(block_of(Buffer::receive, 0), call_.shape, alias_);
    if (!result) return result.status();
    result_ = *result;
  }
  unexpected_bytes_ = unexpected_bound(purpose, call_.shape);
  if (scales(reducer_) && varies(purpose.collective)) {
    scale_blocks(call_, *reducer_, space.contribution);
    memory_.use_contribution();
  }
  for (schedule::BlockSizes& blocks : call_.shape.buffers)
    blocks = {};  // the caller may free its arrays of sizes once `create` returns
  space.departures.assign(schedule.tasks().size(), {});
  space.folded.assign(schedule.tasks().size(), 0);
  space.unsent.clear();
  space.copies.clear();
  space.arrivals.resize(schedule.arrivals().size());
  space.keyed.resize(schedule.arrivals().size());
  space.keyed_keys.assign(schedule.arrivals().size(), std::nullopt);
  for (ArrivalState& arrival : space.arrivals)
    arrival.posted = arrival.placed = arrival.arrived = false;
  space.keys.fill(std::nullopt);
  space.board.reset(schedule);
  completion()->chunks_total = space.board.total();
  return {};
}

void ScheduleOperation::start(Instant now, bool barrier) {
  handshake_.begin(context(), *call_.schedule, *space_, epoch(), priority());
  for (const Match& match : call_.schedule->arrivals())
    context().peers().watch(rank_of(match.peer));
  if (!barrier) {
    begin_tasks(now);
    return;
  }
  ++context().counters().ready_by_barrier;
  context().recorder().enter(epoch(), observe::Phase::ready, now);
  barrier_ = std::make_unique<protocol::ReadyBarrier>(context().rank(), context().size(), epoch());
  for (const Rank rank : barrier_->awaited()) context().peers().watch(rank);
  barrier_->start(outbox_);
  context().messages().send(now, outbox_, priority());
  if (barrier_->done()) begin_tasks(now);
}

void ScheduleOperation::begin_tasks(Instant now) {
  begun_ = true;
  context().recorder().enter(epoch(), observe::Phase::data, now);
  counters_.begin(context(), *call_.schedule, epoch(), priority());
  trace_.start(context().trace(), epoch(), *call_.schedule, space_->filled);
  prepare_contribution();
  run(now);
}

bool ScheduleOperation::poll(Instant now) {
  fail_if_closed(context(), barrier_.get(), *call_.schedule, *space_);
  if (!begun_ || finished_) return false;
  const std::uint32_t before = space_->board.completed();
  const bool copied = copy_on(now);
  if (now >= handshake_.due()) handshake_.announce(now);
  run(now);
  return copied || space_->board.completed() != before;
}

void ScheduleOperation::run(Instant now) {
  for (std::size_t left = space_->unsent.size(); left > 0; --left) {
    const TaskIndex task = space_->unsent.front();
    space_->unsent.erase(space_->unsent.begin());
    transfer(now, task);
  }
  TaskIndex task = 0;
  while (true) {
    while (space_->board.next(task)) issue(now, task);
    const auto counted = counters_.take_complete();
    if (!counted) break;
    complete(*counted);
  }
  completion()->chunks_present.store(space_->board.completed(), std::memory_order_relaxed);
  if (!space_->board.done() || finished_) return;
  finish_reduction();
  finished_ = true;
}

void ScheduleOperation::issue(Instant now, TaskIndex at) {
  const Task& task = call_.schedule->tasks()[at];
  const schedule::FilledTask& filled = space_->filled[at];
  trace_.issued(at);
  switch (task.kind) {
    case TaskKind::send:
      send(now, at);
      return;
    case TaskKind::signal:
      task.counted ? transfer(now, at) : send(now, at);
      return;
    case TaskKind::recv:
      receive(now, at, *call_.schedule->arrival_of(task.peer, task.slot));
      return;
    case TaskKind::wait_keys:
      task.counted ? counters_.begin_wait(now, at) : wait_keys(now, at);
      return;
    case TaskKind::copy:
      copy(at);
      return;
    case TaskKind::reduce:
      reduce(task, memory_.at(filled.source), memory_.at(filled.target));
      complete(at);
      return;
    default:
      // Not reached: the task board itself carries out waits and enables, and `create` refuses
      // every other kind of task.
      return;
  }
}

void ScheduleOperation::copy(TaskIndex at) {
  const std::span<const std::byte> source = memory_.at(space_->filled[at].source);
  if (may_take_long(at)) {
    space_->copies.push_back(at);
    ++context().counters().copies_overlapped;
    return;
  }
  if (!source.empty())
    std::memmove(memory_.at(space_->filled[at].target).data(), source.data(), source.size());
  complete(at);
}

/// True if a task is a long copy for which no other task waits.
bool ScheduleOperation::may_take_long(TaskIndex at) {
  const std::span<const std::byte> source = memory_.at(space_->filled[at].source);
  if (source.size() <= PacedCopy::kSliceBytes) return false;
  const schedule::Schedule& schedule = *call_.schedule;
  const schedule::Queue& queue = schedule.queues()[schedule.tasks()[at].queue];
  if (!schedule.dependents(at).empty() || queue.kind != schedule::QueueKind::free ||
      queue.completions != schedule::kNoIndex)
    return false;
  const std::byte* const target = memory_.at(space_->filled[at].target).data();
  return target + source.size() <= source.data() || source.data() + source.size() <= target;
}

bool ScheduleOperation::copy_on(Instant now) {
  std::vector<TaskIndex>& copies = space_->copies;
  if (copies.empty()) return false;
  const schedule::FilledTask& filled = space_->filled[copies.front()];
  if (!copy_.pending()) copy_.begin(memory_.at(filled.source), memory_.at(filled.target));
  const bool other_work = space_->board.completed() + copies.size() < space_->board.total();
  const bool copied = copy_.go_on(now, other_work);
  if (!copy_.pending()) {
    const TaskIndex at = copies.front();
    copies.erase(copies.begin());
    complete(at);
  }
  return copied;
}

Instant ScheduleOperation::next_deadline() const {
  if (space_->copies.empty()) return handshake_.due();
  return copy_.pending() ? std::min(copy_.due(), handshake_.due()) : Instant{};
}

void ScheduleOperation::complete(TaskIndex task) {
  space_->board.complete(task);
  trace_.completed(task);
}

// ---- Sending ------------------------------------------------------------------------------------

void ScheduleOperation::send(Instant now, TaskIndex at) {
  const Task& task = call_.schedule->tasks()[at];
  const schedule::FilledTask& filled = space_->filled[at];
  if (filled.transfer == Transfer::eager) {
    ++context().counters().messages_eager;
    context().messages().send_data(now, task.peer, epoch(), task.slot, memory_.at(filled.source),
                                   priority());
    complete(at);
    return;
  }
  space_->departures[at].issued = true;
  if (space_->departures[at].clear) return transfer(now, at);
  handshake_.await_clear(now, at);
}

/// Begins an addition to a counter, or the WRITE of a message whose clear-to-send has arrived.
void ScheduleOperation::transfer(Instant now, TaskIndex at) {
  const Task& task = call_.schedule->tasks()[at];
  if (task.counted) {
    space_->departures[at].issued = true;
    if (!counters_.add(now, at, space_->departures[at].old_value)) space_->unsent.push_back(at);
    return;
  }
  const protocol::ClearToSend& clear = *space_->departures[at].clear;
  const Status posted =
      context().endpoint().post(now, {.opcode = device::Opcode::write_immediate,
                                      .peer = task.peer,
                                      .work_id = std::uint64_t{epoch()} << 32 | at,
                                      .local = memory_.at(space_->filled[at].source),
                                      .remote_key = {clear.key},
                                      .remote_offset = clear.offset,
                                      .immediate = std::uint64_t{epoch()} << 32 | task.slot,
                                      .priority = priority()});
  if (posted.ok()) {
    ++context().counters().messages_rendezvous;
    return;
  }
  if (posted.code() == Code::resource_exhausted) space_->unsent.push_back(at);
  context().failures().on_refusal(posted);
}

void ScheduleOperation::on_completion(Instant, const device::Completion& completion) {
  const auto task = static_cast<TaskIndex>(completion.work_id);
  const bool adds = completion.opcode == device::Opcode::fetch_add;
  if (completion.code != Code::ok) {
    context().failures().fail(failure_of(
        context().names().in_job({completion.peer}), completion.code,
        "the {} {} failed: see the error of that rank",
        adds ? "addition to a counter of" : "WRITE to", context().names().of(completion.peer)));
    return;
  }
  if (adds && !counters_.accept_old_value(completion.peer, space_->departures[task].old_value))
    return;
  complete(task);
}

// ---- Receiving ----------------------------------------------------------------------------------

void ScheduleOperation::receive(Instant now, TaskIndex at, std::size_t arrival) {
  ArrivalState& state = space_->arrivals[arrival];
  state.posted = true;
  const schedule::FilledTask& filled = space_->filled[at];
  if (filled.transfer == Transfer::eager) {
    if (!state.arrived) return;
    if (!state.unexpected.empty())
      std::memcpy(memory_.at(filled.target).data(), state.unexpected.data(),
                  state.unexpected.size());
    complete(at);
    return;
  }
  const Result<device::MemoryKey> key = memory_.key_of(filled.target.buffer, context().endpoint());
  if (!key) {
    context().failures().fail(key.status());
    return;
  }
  const Task& task = call_.schedule->tasks()[at];
  handshake_.send_clear(now, task.peer, task.slot,
                        {.key = key->key,
                         .offset = filled.target.offset_bytes,
                         .size_bytes = filled.target.size_bytes});
}

void ScheduleOperation::wait_keys(Instant now, TaskIndex at) {
  const schedule::FilledTask& filled = space_->filled[at];
  for (const schedule::Key& key : call_.schedule->keys(at)) {
    const std::size_t arrival = *call_.schedule->arrival_of(key.source, key.slot);
    space_->arrivals[arrival].posted = true;
    if (filled.transfer == Transfer::eager) continue;
    std::vector<std::byte>& landing = space_->keyed[arrival];
    landing.resize(filled.target.size_bytes);
    auto memory_key = context().endpoint().register_memory(landing);
    if (!memory_key) {
      context().failures().fail(memory_key.status());
      return;
    }
    space_->keyed_keys[arrival] = *memory_key;
    handshake_.send_clear(now, key.source, key.slot,
                          {.key = memory_key->key, .size_bytes = landing.size()});
  }
  fold_arrived_keys(at);
}

/// Reduces the contributions that have arrived, in the order of the task's keys and not in the
/// order of arrival.
void ScheduleOperation::fold_arrived_keys(TaskIndex at) {
  const Task& task = call_.schedule->tasks()[at];
  const schedule::FilledTask& filled = space_->filled[at];
  const std::span<const schedule::Key> keys = call_.schedule->keys(at);
  std::uint32_t& folded = space_->folded[at];
  while (folded < keys.size()) {
    const std::size_t arrival = *call_.schedule->arrival_of(keys[folded].source, keys[folded].slot);
    if (!space_->arrivals[arrival].arrived) return;
    const bool eager = filled.transfer == Transfer::eager;
    reduce(task, eager ? space_->arrivals[arrival].unexpected : space_->keyed[arrival],
           memory_.at(filled.target));
    ++folded;
  }
  complete(at);
}

void ScheduleOperation::on_message(Instant now, Rank from, const protocol::Message& message) {
  if (message.kind != protocol::MessageKind::barrier || !barrier_)
    return Operation::on_message(now, from, message);
  const bool legal = barrier_->on_message(from, message.argument, outbox_);
  if (!legal) ++context().counters().messages_rejected;
  context().messages().send(now, outbox_, priority());
  if (legal && barrier_->done() && !begun_) begin_tasks(now);
}

void ScheduleOperation::on_data(Instant now, Rank from, std::uint32_t slot,
                                std::span<const std::byte> payload) {
  if (slot == protocol::kReadySlot) {
    const auto ready = protocol::decode_ready_to_send(payload);
    const std::string misfit =
        ready ? handshake_.misfit(from, *ready) : "a ready-to-send that is not valid";
    if (!misfit.empty()) reject(from, ready ? ready->slot : slot, misfit);
    return;
  }
  if ((slot & schedule::kCtsSlots) != 0) {
    on_clear_to_send(now, from, slot & ~schedule::kCtsSlots, payload);
    return;
  }
  if (const auto arrival = awaited_arrival(from, slot)) accept(*arrival, payload);
}

/// Returns the index of a message in Schedule::arrivals(). If this rank does not expect the
/// message, returns nothing and fails the communicator.
std::optional<std::size_t> ScheduleOperation::awaited_arrival(Rank from, std::uint32_t slot) {
  const auto arrival = call_.schedule->arrival_of(from, slot);
  if (arrival && !space_->arrivals[*arrival].arrived) return arrival;
  reject(from, slot, "a message that this rank does not expect");
  return std::nullopt;
}

/// A message whose receive task was issued needs no copy: the device stores it in the target.
std::optional<std::span<std::byte>> ScheduleOperation::place_of(Rank from, std::uint32_t slot,
                                                                std::size_t payload_bytes) {
  const auto arrival = call_.schedule->arrival_of(from, slot);
  if (!begun_ || !arrival) return std::nullopt;
  ArrivalState& state = space_->arrivals[*arrival];
  const TaskIndex task = call_.schedule->arrivals()[*arrival].task;
  const schedule::FilledTask& filled = space_->filled[task];
  const bool awaited = state.posted && !state.arrived && !state.placed &&
                       call_.schedule->tasks()[task].kind == TaskKind::recv &&
                       filled.transfer == Transfer::eager &&
                       filled.target.size_bytes == payload_bytes;
  if (!awaited) return std::nullopt;
  state.placed = true;
  return memory_.at(filled.target);
}

void ScheduleOperation::on_placed(Instant, Rank from, std::uint32_t slot) {
  if (const auto arrival = awaited_arrival(from, slot)) arrived(*arrival);
}

void ScheduleOperation::accept(std::size_t arrival, std::span<const std::byte> payload) {
  const Match& match = call_.schedule->arrivals()[arrival];
  const schedule::FilledTask& filled = space_->filled[match.task];
  if (filled.transfer != Transfer::eager || payload.size() != filled.target.size_bytes) {
    reject(rank_of(match.peer), match.slot,
           handshake_.sizes_differ(rank_of(match.peer), payload.size(), context().rank(),
                                   filled.target.size_bytes));
    return;
  }
  ArrivalState& state = space_->arrivals[arrival];
  const bool to_its_place =
      state.posted && call_.schedule->tasks()[match.task].kind == TaskKind::recv;
  if (!to_its_place) {
    state.unexpected.assign(payload.begin(), payload.end());
  } else if (!payload.empty()) {
    std::memcpy(memory_.at(filled.target).data(), payload.data(), payload.size());
  }
  arrived(arrival);
}

void ScheduleOperation::arrived(std::size_t arrival) {
  ArrivalState& state = space_->arrivals[arrival];
  state.arrived = true;
  trace_.arrived(arrival);
  if (!state.posted) return;
  const TaskIndex task = call_.schedule->arrivals()[arrival].task;
  if (call_.schedule->tasks()[task].kind == TaskKind::recv) {
    complete(task);
  } else if (!space_->board.is_complete(task)) {
    fold_arrived_keys(task);
  }
}

void ScheduleOperation::on_clear_to_send(Instant now, Rank from, std::uint32_t slot,
                                         std::span<const std::byte> payload) {
  const auto task = call_.schedule->sender_of(from, slot);
  const auto clear = protocol::decode_clear_to_send(payload);
  const std::uint64_t source_bytes = task ? space_->filled[*task].source.size_bytes : 0;
  if (task && clear && clear->size_bytes != source_bytes)
    return reject(from, slot,
                  handshake_.sizes_differ(context().rank(), source_bytes, from, clear->size_bytes));
  const bool counted = task && call_.schedule->tasks()[*task].counted;
  const bool waits = task && (counted || space_->filled[*task].transfer == Transfer::rendezvous);
  CounterWords& words = context().operations().counter_words();
  const bool repeated =
      task && (space_->departures[*task].clear || (counted && words.key_of(from)));
  if (!waits || !clear || repeated)
    return reject(from, slot, "a clear-to-send that matches no message of this rank");
  DepartureState& departure = space_->departures[*task];
  departure.clear = *clear;
  if (counted) words.learn(from, {clear->key});
  if (departure.issued) transfer(now, *task);
}

void ScheduleOperation::on_immediate(Instant, Rank from, std::uint32_t slot) {
  const auto arrival = call_.schedule->arrival_of(from, slot);
  const bool expected =
      arrival && space_->arrivals[*arrival].posted && !space_->arrivals[*arrival].arrived &&
      space_->filled[call_.schedule->arrivals()[*arrival].task].transfer == Transfer::rendezvous;
  if (!expected) return reject(from, slot, "data for which this rank has sent no clear-to-send");
  arrived(*arrival);
}

void ScheduleOperation::reject(Rank from, std::uint32_t slot, const std::string& what) {
  ++context().counters().messages_rejected;
  context().failures().fail(context().failures().misfit(
      from, Code::invalid_argument,
      "message {1} from {0} does not fit this rank's schedule ({2}): call the same collective with "
      "the same sizes, types and algorithm on all ranks",
      context().names().of(from), slot, what));
}

// ---- Computing ----------------------------------------------------------------------------------

void ScheduleOperation::reduce(const Task& task, std::span<const std::byte> source,
                               std::span<std::byte> target) {
  if (target.empty()) return;
  if (task.side == schedule::Side::none) {
    std::memcpy(target.data(), source.data(), target.size());
    return;
  }
  const std::size_t count = target.size() / element_bytes(reducer_->type());
  context().counters().bytes_reduced += target.size();
  if (task.side == schedule::Side::after) {
    reducer_->accumulate(target.data(), source.data(), count);
    return;
  }
  const std::array<const std::byte*, 2> operands = {source.data(), target.data()};
  reducer_->combine(target.data(), operands, count);
}

/// Prepares this rank's contribution before the schedule uses it: multiplies it by the rank's
/// factor for premultiplied_sum, and copies it for an Alltoall in place. An Allreduce or
/// Reduce in place stores the products in the caller's buffer, which the result overwrites anyway.
void ScheduleOperation::prepare_contribution() {
  if (memory_.contributes_copy()) return;
  const bool in_place = !alias_.name.empty();
  const bool shares = !in_place && !call_.send.empty() && call_.send.data() == call_.receive.data();
  if (!scales(reducer_) && !shares) return;
  const std::span<std::byte> own = memory_.of(in_place ? alias_.storage.buffer : Buffer::send);
  if (!in_place) space_->contribution.resize(own.size());
  std::byte* const target = in_place ? own.data() : space_->contribution.data();
  if (scales(reducer_)) {
    reducer_->prepare(target, own.data(), own.size() / element_bytes(reducer_->type()),
                      call_.reduction->factor.data());
  } else {
    std::copy(own.begin(), own.end(), target);
  }
  if (!in_place) memory_.use_contribution();
}

void ScheduleOperation::finish_reduction() {
  if (!reducer_ || result_.size_bytes == 0) return;
  reducer_->finish(memory_.at(result_).data(), result_.size_bytes / element_bytes(reducer_->type()),
                   context().size());
}

void ScheduleOperation::finish() { memory_.deregister(context().endpoint()); }

// ---- Observation --------------------------------------------------------------------------------

observe::Phase ScheduleOperation::phase() const {
  return begun_ ? observe::Phase::data : observe::Phase::ready;
}

Missing ScheduleOperation::missing() const {
  if (!begun_) return {"ranks that have not called this collective yet"};
  Missing all;
  for (TaskIndex t = 0; t < space_->filled.size(); ++t) {
    if (!space_->board.is_open(t)) continue;
    const schedule::Task& task = call_.schedule->tasks()[t];
    if (task.kind == schedule::TaskKind::recv) all.ranks.insert(task.peer);
    if (!all.text.empty()) continue;
    all.text = fmt::format("{} of {} tasks, the first of them {}",
                           space_->board.total() - space_->board.completed(), space_->board.total(),
                           schedule::describe(*call_.schedule, t));
  }
  return all;
}

}  // namespace tutti::engine
