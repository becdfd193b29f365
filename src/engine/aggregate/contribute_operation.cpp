#include "engine/aggregate/contribute_operation.hpp"

#include <algorithm>
#include <cstring>

#include "base/error.hpp"
#include "engine/core/communicator_context.hpp"

namespace tutti::engine {

using protocol::Message;
using protocol::MessageKind;

namespace {

// Number of contribution bytes that are multiplied by the factor of a premultiplied_sum in one
// step.
constexpr std::size_t kJoinBytes = 4096;

Description describe_call(const InNetworkCall& call, std::uint64_t bytes) {
  switch (call.kind) {
    case InNetworkKind::allreduce:
      return {"allreduce", "in_network", kNoRank, bytes};
    case InNetworkKind::reduce_scatter:
      return {"reduce_scatter", "in_network", kNoRank, bytes};
    case InNetworkKind::reduce:
      break;
  }
  return {"reduce", "in_network", call.root, bytes};
}

/// Casts away const, because a work request takes writable memory although a WRITE only reads it.
std::span<std::byte> readable(std::span<const std::byte> bytes) {
  return {const_cast<std::byte*>(bytes.data()), bytes.size()};
}

}  // namespace

ContributeOperation::ContributeOperation(const InNetworkCall& call, const WindowConfig& terms,
                                         const InNetworkBuffers& buffers,
                                         const reduction::Reducer& reducer)
    : Operation(describe_call(call, buffers.input.size())),
      call_(call),
      terms_(terms),
      buffers_(buffers),
      reducer_(reducer) {}

void ContributeOperation::start(Instant now, bool) {
  plan_ = InNetworkPlan(call_, context().size() - 1, terms_);
  ++context().counters().in_network_calls;
  completion()->chunks_total = expected();
  context().recorder().enter(epoch(), observe::Phase::data, now);
  context().peers().watch(aggregator());
  last_ = plan_.segments() - 1;
  if (plan_.stays(last_, context().rank())) --last_;
  if (receives() && !open_placement()) return;
  record_ = encode(CallRecord{call_, landing_key_.key, buffers_.factor});
}

Rank ContributeOperation::aggregator() const { return rank_of(context().size() - 1); }

// Registers the memory into which the aggregator writes the results. Separate memory is used if the
// results would overwrite a contribution that this rank must still add to them.
bool ContributeOperation::open_placement() {
  landing_ = buffers_.result;
  const std::byte* own = buffers_.input.data() + index(context().rank()) * buffers_.block_bytes +
                         buffers_.part_offset_bytes;
  if (joins() && buffers_.result.data() == own) {
    scratch_.resize(buffers_.result.size());
    landing_ = scratch_;
  }
  auto key = context().endpoint().register_memory(landing_);
  if (!key) {
    context().failures().fail(key.status());
    return false;
  }
  landing_key_ = *key;
  registered_ = true;
  return true;
}

void ContributeOperation::on_message(Instant now, Rank from, const Message& message) {
  if (from != aggregator()) return Operation::on_message(now, from, message);
  switch (message.kind) {
    case MessageKind::window:
      window_key_ = message.argument;
      granted_ = std::max(granted_, terms_.slots);
      return;
    case MessageKind::credit_batch:
      granted_ = std::max(granted_, static_cast<std::uint32_t>(message.argument));
      return;
    case MessageKind::refused:
      context().failures().fail(refusal_status(context().names(), aggregator(), message));
      return;
    default:
      ++context().counters().messages_rejected;
  }
}

std::span<const std::byte> ContributeOperation::contribution(std::uint32_t segment) const {
  return buffers_.input.subspan(plan_.block(segment) * buffers_.block_bytes +
                                    buffers_.part_offset_bytes + plan_.offset_bytes(segment),
                                plan_.bytes(segment));
}

bool ContributeOperation::post_record(Instant now) {
  const Status posted = context().endpoint().post(now, {.opcode = device::Opcode::write,
                                                        .peer = aggregator(),
                                                        .work_id = std::uint64_t{epoch()} << 32,
                                                        .local = record_,
                                                        .remote_key = {window_key_},
                                                        .signaled = false,
                                                        .priority = priority()});
  record_posted_ = posted.ok();
  if (!record_posted_) context().failures().on_refusal(posted);
  return record_posted_;
}

bool ContributeOperation::post_segment(Instant now, std::uint32_t segment) {
  const std::uint64_t slot = segment % terms_.slots;
  const Status posted = context().endpoint().post(
      now, {.opcode = device::Opcode::write_immediate,
            .peer = aggregator(),
            .work_id = std::uint64_t{epoch()} << 32 | segment,
            .local = readable(contribution(segment)),
            .remote_key = {window_key_},
            .remote_offset = CallRecord::kBytes + slot * terms_.segment_bytes,
            .immediate = std::uint64_t{epoch()} << 32 | (segment + 1),
            .signaled = segment == last_,
            .priority = priority()});
  if (!posted.ok()) {
    context().failures().on_refusal(posted);
    return false;
  }
  ++context().counters().in_network_segments_sent;
  context().counters().in_network_bytes_sent += plan_.bytes(segment);
  return true;
}

bool ContributeOperation::post_some(Instant now) {
  bool worked = false;
  // If the ranks should start together, a poll sends one segment only, so that other ranks on this
  // core can start, too.
  const std::uint32_t end = begins_together() ? std::min(granted_, next_ + 1) : granted_;
  while (next_ <= last_ && next_ < end) {
    if (!record_posted_ && !post_record(now)) return worked;
    if (!plan_.stays(next_, context().rank()) && !post_segment(now, next_)) return worked;
    ++next_;
    worked = true;
  }
  note_stall(now, granted_ > 0 && next_ >= granted_ && next_ <= last_);
  return worked;
}

void ContributeOperation::note_stall(Instant now, bool stalled) {
  observe::Counters& counters = context().counters();
  if (stalled && stalled_since_ == Instant{}) {
    stalled_since_ = now;
    ++counters.in_network_stalls;
  } else if (!stalled && stalled_since_ != Instant{}) {
    counters.in_network_stall_ns += static_cast<std::uint64_t>((now - stalled_since_).count());
    stalled_since_ = {};
  }
}

bool ContributeOperation::poll(Instant now) {
  if (next_ > last_ || next_ >= granted_) return false;
  if (stalled_since_ != Instant{}) note_stall(now, false);
  return post_some(now);
}

void ContributeOperation::on_immediate(Instant, Rank from, std::uint32_t count) {
  if (from != aggregator() || count <= results_ || count > expected()) {
    ++context().counters().messages_rejected;
    return;
  }
  for (; results_ < count; ++results_) {
    if (joins()) join(results_);
  }
  ++context().counters().in_network_results;
  completion()->chunks_present.store(results_, std::memory_order_relaxed);
}

// Adds this rank's own contribution to a result from the aggregator, which has already combined the
// contributions of all other ranks.
void ContributeOperation::join(std::uint32_t in_block) {
  const std::uint32_t segment = in_block * (context().size() - 1) + index(context().rank());
  const std::uint64_t offset = plan_.offset_bytes(segment);
  const std::size_t element = reduction::element_bytes(call_.type);
  const std::size_t bytes = plan_.bytes(segment);
  std::byte* partial = landing_.data() + offset;
  const std::byte* own = contribution(segment).data();
  if (call_.operation == reduction::Operation::premultiplied_sum) {
    std::array<std::byte, kJoinBytes> scaled;
    for (std::size_t at = 0; at < bytes; at += kJoinBytes) {
      const std::size_t some = std::min(kJoinBytes, bytes - at) / element;
      reducer_.prepare(scaled.data(), own + at, some, buffers_.factor.data());
      reducer_.accumulate(partial + at, scaled.data(), some);
    }
  } else {
    reducer_.accumulate(partial, own, bytes / element);
  }
  reducer_.finish(partial, bytes / element, context().size() - 1);
  context().counters().in_network_bytes_joined += bytes;
  if (!scratch_.empty()) std::memcpy(buffers_.result.data() + offset, partial, bytes);
}

void ContributeOperation::on_completion(Instant, const device::Completion& completion) {
  if (completion.code != Code::ok) {
    context().failures().fail(failure(completion.code,
                                      "{} refused a contribution: see the error of that rank",
                                      context().names().of(completion.peer)));
    return;
  }
  acknowledged_ = true;
}

bool ContributeOperation::locally_complete() const {
  // The results of an Allreduce arrive by Broadcasts, which are later operations. They can begin
  // only after this operation counts as locally complete.
  return call_.kind == InNetworkKind::allreduce || done();
}

bool ContributeOperation::done() const { return acknowledged_ && results_ >= expected(); }

void ContributeOperation::finish() {
  if (registered_) context().endpoint().deregister_memory(landing_key_);
  registered_ = false;
}

Missing ContributeOperation::missing() const {
  const std::uint32_t segments = plan_.segments();
  if (granted_ == 0) return {"the aggregator's window"};
  if (next_ <= last_) {
    return {fmt::format("credits; {} of {} segments have been sent", next_, segments)};
  }
  return {fmt::format("{} of {} results", expected() - results_, expected())};
}

void InNetworkLeave::on_message(Instant, Rank from, const Message& message) {
  if (message.kind == MessageKind::leave && index(from) + 1 == context().size()) left_ = true;
}

void InNetworkLeave::start(Instant now, bool) {
  const Rank aggregator = rank_of(context().size() - 1);
  // Each leaving rank itself watches the aggregator. The other ranks may already have received the
  // aggregator's answer and left, so they could not report that the aggregator has died.
  context().peers().watch(aggregator);
  protocol::Outbox outbox;
  outbox.send(aggregator, MessageKind::leave, epoch());
  context().messages().send(now, outbox);
}

}  // namespace tutti::engine
