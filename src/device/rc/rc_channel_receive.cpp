#include "device/rc/rc_channel.hpp"

// The receiving half of a channel: handles the peer's frames.

#include <algorithm>
#include <cstring>

#include "base/circular.hpp"

namespace tutti::device::rc {
namespace {

bool overlap(const std::byte* a, std::size_t a_bytes, const std::byte* b, std::size_t b_bytes) {
  const auto first = reinterpret_cast<std::uintptr_t>(a);
  const auto second = reinterpret_cast<std::uintptr_t>(b);
  return first < second + b_bytes && second < first + a_bytes;
}

}  // namespace

void RcChannel::on_frame(Instant now, std::span<const std::byte> bytes, CompletionSink& sink) {
  if (failed_) return;
  ++counters_.frames_received;
  const std::optional<RcFrame> frame = decode_rc(bytes);
  if (!frame) {
    ++counters_.rejected_malformed;
    return;
  }
  if (frame->source_incarnation != config_.peer_incarnation ||
      frame->destination_incarnation != config_.own_incarnation) {
    ++counters_.rejected_incarnation;
    return;
  }
  last_heard_ = now;
  ping_wanted_ = false;
  const auto acknowledged = [this](const FrameRecord& record) { on_acknowledged(record); };
  if (!send_.acknowledge(now, *frame, acknowledged)) {
    ++counters_.rejected_malformed;
    return;
  }
  if (frame->kind != RcKind::ack) {
    on_sequenced(now, *frame, bytes, sink);
  } else if (frame->acknowledge_now) {
    acknowledge_at_once_ = true;
  }
  complete_finished(sink);
}

void RcChannel::on_acknowledged(const FrameRecord& record) {
  switch (record.kind) {
    case RcKind::send:
    case RcKind::write:
    case RcKind::write_immediate:
      --work(record.operation).frames;
      return;
    case RcKind::read_request:
      for (std::uint32_t i = 0; i < record.ranges; ++i) --work(record.operation + i).frames;
      return;
    case RcKind::read_response:
      counters_.read_bytes_served += record.bytes;
      return;
    case RcKind::ack:
    case RcKind::empty:
    case RcKind::refused:
      return;
  }
}

void RcChannel::on_sequenced(Instant now, const RcFrame& frame, std::span<const std::byte> bytes,
                             CompletionSink& sink) {
  const bool had_gap = receive_.gap();
  newest_was_resent_ = frame.resent;
  switch (receive_.classify(frame.sequence)) {
    case ReceiveWindow::Arrival::duplicate:
      ++counters_.frames_duplicate;
      acknowledge_at_once_ = true;
      return;
    case ReceiveWindow::Arrival::beyond:
      ++counters_.frames_dropped_unexpected;
      acknowledge_at_once_ = true;
      return;
    case ReceiveWindow::Arrival::next:
      if (!accept_next(frame, sink)) {
        acknowledge_at_once_ = true;
        return;
      }
      receive_.advance();
      refusing_ = false;
      run_unexpected(sink);
      break;
    case ReceiveWindow::Arrival::early:
      if (!accept_unexpected(frame, bytes)) {
        acknowledge_at_once_ = true;
        return;
      }
      receive_.mark(frame.sequence);
      // A gap counts as path loss in both directions: this side sends too little to observe it.
      if (!had_gap) send_.note_loss();
      break;
  }
  ++unacknowledged_arrivals_;
  if (frame.acknowledge_now || had_gap || receive_.gap() ||
      unacknowledged_arrivals_ >= kAcknowledgeEvery) {
    acknowledge_at_once_ = true;
  }
  acknowledge_at_ = std::min(acknowledge_at_, now + config_.ack_delay);
}

bool RcChannel::accept_next(const RcFrame& frame, CompletionSink& sink) {
  std::byte* placed = nullptr;
  switch (frame.kind) {
    case RcKind::send:
      deliver_message(frame, sink);
      return true;
    case RcKind::write:
    case RcKind::write_immediate:
      if (!accept_write(frame, placed)) {
        refuse_write(frame);
        return false;
      }
      if (frame.operation != refused_operation_) refused_any_ = false;
      if (frame.kind == RcKind::write_immediate) {
        deliver_immediate(frame.operation, frame.immediate, sink);
      }
      return true;
    case RcKind::read_request:
      accept_read(frame);
      return true;
    case RcKind::read_response:
      accept_answer(frame);
      return true;
    case RcKind::refused:
      accept_refusal(frame);
      return true;
    case RcKind::ack:
    case RcKind::empty:
      return true;
  }
  return true;
}

bool RcChannel::accept_unexpected(const RcFrame& frame, std::span<const std::byte> bytes) {
  if (early_.empty()) early_.resize(kRcReceiveWindowFrames);
  Early added;
  added.kind = frame.kind;
  switch (frame.kind) {
    case RcKind::send:
    case RcKind::read_request:
      added.kept =
          bytes.size() <= unexpected_buffers_.buffer_bytes() ? unexpected_buffers_.take() : nullptr;
      if (added.kept == nullptr) {
        ++counters_.frames_dropped_unexpected;
        return false;
      }
      std::memcpy(added.kept, bytes.data(), bytes.size());
      added.retained_bytes = static_cast<std::uint32_t>(bytes.size());
      break;
    case RcKind::write:
    case RcKind::write_immediate:
      // A bad key is refused when the frame is retransmitted in its turn.
      if (!accept_write(frame, added.placed)) return false;
      added.placed_bytes = static_cast<std::uint32_t>(frame.payload.size());
      added.operation = frame.operation;
      added.immediate = frame.immediate;
      break;
    case RcKind::read_response:
      accept_answer(frame);
      break;
    case RcKind::refused:
      accept_refusal(frame);
      break;
    case RcKind::ack:
    case RcKind::empty:
      break;
  }
  early(frame.sequence) = added;
  return true;
}

void RcChannel::run_unexpected(CompletionSink& sink) {
  while (receive_.gap() && receive_.received(receive_.expected())) {
    const Early& next = early(receive_.expected());
    if (next.kind == RcKind::write_immediate) {
      deliver_immediate(next.operation, next.immediate, sink);
    }
    if (next.kept != nullptr) {
      const std::optional<RcFrame> frame = decode_rc({next.kept, next.retained_bytes});
      if (next.kind == RcKind::send) deliver_message(*frame, sink);
      if (next.kind == RcKind::read_request) accept_read(*frame);
      unexpected_buffers_.give_back(next.kept);
    }
    receive_.advance();
  }
}

bool RcChannel::accept_write(const RcFrame& frame, std::byte*& placed) {
  if (frame.remaining == 0) return true;
  // The rest of the operation must fit, not only this frame: it is written whole or not at all.
  const auto region = memory_.resolve(frame.key, frame.offset, frame.remaining);
  if (!region) return false;
  placed = region->data();
  const bool is_last = !circular_before(frame.sequence + 1, receive_.end());
  if (is_last) {
    std::memcpy(placed, frame.payload.data(), frame.payload.size());
  } else {
    place_under_later(frame.payload, placed, frame.sequence + 1);
  }
  return true;
}

void RcChannel::place_under_later(std::span<const std::byte> data, std::byte* to,
                                  std::uint32_t later) {
  // Data of later frames that arrived earlier must not be overwritten.
  for (; later != receive_.end() && !data.empty(); ++later) {
    if (!receive_.received(later)) continue;
    const Early& top = early(later);
    if (top.placed_bytes == 0 || !overlap(to, data.size(), top.placed, top.placed_bytes)) continue;
    if (top.placed > to) {
      place_under_later(data.first(static_cast<std::size_t>(top.placed - to)), to, later + 1);
    }
    const std::byte* top_end = top.placed + top.placed_bytes;
    if (top_end >= to + data.size()) return;
    const auto skipped = static_cast<std::size_t>(top_end - to);
    data = data.subspan(skipped);
    to += skipped;
  }
  if (!data.empty()) std::memcpy(to, data.data(), data.size());
}

void RcChannel::refuse_write(const RcFrame& frame) {
  if (refusing_) return;
  Response refusal;
  refusal.kind = RcKind::refused;
  refusal.operation = frame.operation;
  if (!push_response(refusal)) return;
  ++counters_.refused_operations;
  refusing_ = true;
  refused_any_ = true;
  refused_operation_ = frame.operation;
}

void RcChannel::deliver_immediate(std::uint32_t operation, std::uint64_t immediate,
                                  CompletionSink& sink) {
  acknowledge_at_once_ = true;
  if (refused_any_ && operation == refused_operation_) return;
  Completion completion;
  completion.opcode = Opcode::receive;
  completion.peer = peer_;
  completion.immediate = immediate;
  sink.push(completion);
}

void RcChannel::deliver_message(const RcFrame& frame, CompletionSink& sink) {
  const bool continues = frame.offset == 0 || frame.offset == message_.size();
  if (!continues || frame.message_bytes > config_.max_message_bytes) {
    ++counters_.rejected_malformed;
    message_.clear();
    return;
  }
  std::span<const std::byte> message = frame.payload;
  if (message.size() != frame.message_bytes) {
    if (frame.offset == 0) message_.clear();
    message_.insert(message_.end(), message.begin(), message.end());
    if (message_.size() != frame.message_bytes) return;
    message = message_;
  }
  acknowledge_at_once_ = true;
  Completion completion;
  completion.opcode = Opcode::receive;
  completion.peer = peer_;
  completion.payload = message;
  sink.push(completion);
  message_.clear();
}

void RcChannel::accept_read(const RcFrame& frame) {
  for (std::size_t i = 0; i < frame.count; ++i) {
    const RcReadRange range = range_at(frame, i);
    Response response;
    response.operation = range.operation;
    response.key = range.key;
    response.offset = range.offset;
    response.length = range.length;
    if (range.length > 0 && !memory_.resolve(range.key, range.offset, range.length)) {
      response.kind = RcKind::refused;
      ++counters_.refused_operations;
    }
    // Full only if a peer opens more READs than the protocol allows.
    if (!push_response(response)) ++counters_.rejected_malformed;
  }
}

bool RcChannel::push_response(const Response& response) {
  if (responses_.empty()) responses_.resize(kResponseSlots);
  if (end_response_ - first_response_ >= kResponseSlots) return false;
  responses_[end_response_++ % kResponseSlots] = response;
  return true;
}

void RcChannel::accept_answer(const RcFrame& frame) {
  Work* read = open_work(frame.operation);
  if (read == nullptr || read->request.opcode != Opcode::read || !read->all_cut) return;
  const std::size_t bytes = frame.payload.size();
  const std::span<std::byte> local = read->request.local;
  if (read->answered || frame.offset > local.size() || bytes > local.size() - frame.offset) return;
  if (bytes > 0) std::memcpy(local.data() + frame.offset, frame.payload.data(), bytes);
  read->answer_bytes -= std::min<std::uint64_t>(read->answer_bytes, bytes);
  if (read->answer_bytes == 0) finish_read(*read);
}

void RcChannel::accept_refusal(const RcFrame& frame) {
  Work* refused = open_work(frame.operation);
  if (refused == nullptr || refused->request.opcode == Opcode::send) return;
  if (refused->request.opcode == Opcode::read) {
    if (!refused->all_cut || refused->answered) return;
    refused->code = refusal_code(frame);
    finish_read(*refused);
    return;
  }
  if (refused->frames == 0) return;  // not sent yet, or completely acknowledged
  refused->code = refusal_code(frame);
  if (!refused->all_cut) {  // the rest of the request being cut is not sent
    refused->all_cut = true;
    ++next_work_;
  }
}

}  // namespace tutti::device::rc
