#include "device/rc/rc_frame_receiver.hpp"

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/circular.hpp"

namespace tutti::device::rc {
namespace {

bool overlap(const std::byte* a, std::size_t a_bytes, const std::byte* b, std::size_t b_bytes) {
  const auto first = reinterpret_cast<std::uintptr_t>(a);
  const auto second = reinterpret_cast<std::uintptr_t>(b);
  return first < second + b_bytes && second < first + a_bytes;
}

/// True if the frame carries a request, or part of one, that its sender can give up.
bool is_request(RcKind kind) {
  return kind == RcKind::send || kind == RcKind::write || kind == RcKind::write_immediate ||
         kind == RcKind::read_request || kind == RcKind::atomic_request;
}

/// True if a frame of this kind shows that its sender has sent or given up all earlier WRITEs.
bool is_between_writes(RcKind kind) {
  return kind == RcKind::send || kind == RcKind::read_request || kind == RcKind::atomic_request ||
         kind == RcKind::empty;
}

}  // namespace

bool FrameReceiver::on_frame(Instant now, const RcFrame& frame, std::span<const std::byte> bytes,
                             CompletionSink& sink) {
  const bool had_gap = window_.gap();
  newest_was_resent_ = frame.resent;
  switch (window_.classify(frame.sequence)) {
    case ReceiveWindow::Arrival::duplicate:
      ++counters_.frames_duplicate;
      ack_.send_at_once();
      return false;
    case ReceiveWindow::Arrival::beyond:
      ++counters_.frames_dropped_unexpected;
      ack_.send_at_once();
      return false;
    case ReceiveWindow::Arrival::next:
      if (!accept_next(frame, sink)) {
        ack_.send_at_once();
        return false;
      }
      window_.advance();
      refusing_ = false;
      if (had_gap) run_early(sink);
      break;
    case ReceiveWindow::Arrival::early:
      if (!accept_early(frame, bytes)) {
        ack_.send_at_once();
        return false;
      }
      window_.mark(frame.sequence);
      break;
  }
  const bool gap = window_.gap();
  const bool message = frame.kind == RcKind::send && message_arrived_ == 0;
  if (message && !frame.resent && !had_gap && !gap) {
    ack_.on_message(now);
  } else {
    ack_.on_arrival(now, frame.acknowledge_now || message || had_gap || gap);
  }
  return gap && !had_gap;
}

bool FrameReceiver::accept_next(const RcFrame& frame, CompletionSink& sink) {
  if (count_given_up() && is_request(frame.kind)) return true;
  if (is_between_writes(frame.kind)) end_write();
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
      finish_write(frame.kind, WritePart::of(frame), frame.payload.size(), sink);
      return true;
    case RcKind::read_request:
      responses_.add_reads(frame);
      return true;
    case RcKind::atomic_request:
      responses_.execute_atomic(frame);
      return true;
    case RcKind::read_response:
    case RcKind::atomic_answer:
      works_.accept_answer(frame, ack_);
      return true;
    case RcKind::refused:
      works_.accept_refusal(frame, ack_);
      return true;
    case RcKind::empty:
      accept_empty(frame.count);
      return true;
    case RcKind::ack:
      return true;
  }
  return true;
}

/// Copies an early frame, which was decoded from `bytes`, into a buffer. Returns null and counts
/// the frame if it is dropped.
std::byte* FrameReceiver::keep(RcKind kind, std::span<const std::byte> bytes) {
  const bool fits = bytes.size() <= early_buffers_.buffer_bytes();
  std::byte* const kept = fits ? early_buffers_.take() : nullptr;
  if (kept == nullptr) {
    ++counters_.frames_dropped_unexpected;
    return nullptr;
  }
  std::memcpy(kept, bytes.data(), bytes.size());
  // In shared memory the peer can change the bytes after they were decoded. The frame is executed
  // from its copy, so the copy is what must be valid.
  const std::optional<RcFrame> copy = decode_rc({kept, bytes.size()});
  if (copy && copy->kind == kind) return kept;
  early_buffers_.give_back(kept);
  ++counters_.rejected_malformed;
  return nullptr;
}

bool FrameReceiver::accept_early(const RcFrame& frame, std::span<const std::byte> bytes) {
  if (early_.empty()) early_.resize(kRcReceiveWindowFrames);
  Early added;
  added.kind = frame.kind;
  switch (frame.kind) {
    case RcKind::send:
    case RcKind::read_request:
    case RcKind::atomic_request:
      added.kept = keep(frame.kind, bytes);
      if (added.kept == nullptr) return false;
      added.kept_bytes = static_cast<std::uint32_t>(bytes.size());
      break;
    case RcKind::write:
    case RcKind::write_immediate:
      // An early frame with a bad key is dropped. Its operation is refused when the retransmitted
      // frame arrives in order.
      if (!accept_write(frame, added.placed)) return false;
      added.placed_bytes = static_cast<std::uint32_t>(frame.payload.size());
      added.write = WritePart::of(frame);
      break;
    case RcKind::read_response:
    case RcKind::atomic_answer:
      works_.accept_answer(frame, ack_);
      break;
    case RcKind::refused:
      // An early refusal is dropped, because a frame before it may carry the cause: a failure
      // notice, which names the rank at fault and must be handled first.
      return false;
    case RcKind::empty:
      added.given_up_frames = frame.count;
      break;
    case RcKind::ack:
      break;
  }
  early(frame.sequence) = added;
  return true;
}

void FrameReceiver::run_early(CompletionSink& sink) {
  while (window_.gap() && window_.received(window_.expected())) {
    const Early& next = early(window_.expected());
    if (!count_given_up() || !is_request(next.kind)) run(next, sink);
    if (next.kept != nullptr) early_buffers_.give_back(next.kept);
    window_.advance();
  }
}

void FrameReceiver::run(const Early& next, CompletionSink& sink) {
  if (is_between_writes(next.kind)) end_write();
  if (next.kind == RcKind::empty) accept_empty(next.given_up_frames);
  if (next.kind == RcKind::write || next.kind == RcKind::write_immediate)
    finish_write(next.kind, next.write, next.placed_bytes, sink);
  if (next.kept == nullptr) return;
  const std::optional<RcFrame> frame = decode_rc({next.kept, next.kept_bytes});
  if (next.kind == RcKind::send) deliver_message(*frame, sink);
  if (next.kind == RcKind::read_request) responses_.add_reads(*frame);
  if (next.kind == RcKind::atomic_request) responses_.execute_atomic(*frame);
}

/// Returns true if the peer has given up the requests in the expected frame, and then removes this
/// frame from the count given_up_frames_.
bool FrameReceiver::count_given_up() {
  if (given_up_frames_ == 0) return false;
  --given_up_frames_;
  return true;
}

void FrameReceiver::accept_empty(std::uint16_t given_up_frames) {
  given_up_frames_ = std::max(given_up_frames_, given_up_frames);
  // An empty frame after a part of a message is no ping: the sender has given up the rest.
  drop_message();
}

// The sender has given up the rest of a WRITE that is still incomplete or refused.
void FrameReceiver::end_write() {
  open_write_bytes_ = 0;
  refused_any_ = false;
}

bool FrameReceiver::accept_write(const RcFrame& frame, std::byte*& placed) {
  if (frame.remaining == 0) return true;
  // The whole rest of the operation must fit into the region, because an operation is written
  // completely or not at all.
  const auto region = memory_.resolve(frame.key, frame.offset, frame.remaining);
  if (!region) return false;
  placed = region->data();
  const bool is_last = !circular_before(frame.sequence + 1, window_.end());
  if (is_last) {
    std::memcpy(placed, frame.payload.data(), frame.payload.size());
  } else {
    place_under_later(frame.payload, placed, frame.sequence + 1);
  }
  return true;
}

void FrameReceiver::place_under_later(std::span<const std::byte> data, std::byte* to,
                                      std::uint32_t later) {
  // A frame with a later sequence number may have arrived before this frame. The bytes that the
  // later frame has written are not overwritten, so the result is as if the frames had arrived in
  // order.
  for (; later != window_.end() && !data.empty(); ++later) {
    if (!window_.received(later)) continue;
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

void FrameReceiver::refuse_write(const RcFrame& frame) {
  if (refusing_) return;
  if (!responses_.refuse_write(frame.operation)) return;
  refusing_ = true;
  refused_any_ = true;
  refused_operation_ = frame.operation;
}

// A sender that abandons a WRITE replaces its lost frames by empty ones. If the last frame of that
// WRITE has already arrived, its immediate must not be delivered.
void FrameReceiver::finish_write(RcKind kind, const WritePart& part, std::uint64_t bytes,
                                 CompletionSink& sink) {
  const bool follows = part.operation == open_write_ && part.remaining == open_write_bytes_;
  const bool whole = !part.continues || follows;
  open_write_ = part.operation;
  open_write_bytes_ = whole ? part.remaining - bytes : 0;
  if (whole && kind == RcKind::write_immediate)
    deliver_immediate(part.operation, part.immediate, sink);
}

void FrameReceiver::deliver_immediate(std::uint32_t operation, std::uint64_t immediate,
                                      CompletionSink& sink) {
  ack_.send_at_once();
  if (refused_any_ && operation == refused_operation_) return;
  Completion completion;
  completion.opcode = Opcode::receive;
  completion.peer = peer_;
  completion.immediate = immediate;
  sink.push(completion);
}

void FrameReceiver::deliver_message(const RcFrame& frame, CompletionSink& sink) {
  if (frame.offset == 0) drop_message();
  const bool begins = message_arrived_ == 0;
  if (begins) message_bytes_ = frame.message_bytes;
  if (frame.offset != message_arrived_ || frame.message_bytes != message_bytes_ ||
      message_bytes_ > config_.max_message_bytes) {
    ++counters_.rejected_malformed;
    drop_message();
    return;
  }
  if (begins) message_place_ = sink.match(peer_, frame.payload, message_bytes_);
  message_arrived_ += static_cast<std::uint32_t>(frame.payload.size());
  const bool whole = message_arrived_ == message_bytes_;
  if (message_place_) {
    message_place_->store(frame.offset, frame.payload);
  } else if (!begins || !whole) {
    message_.insert(message_.end(), frame.payload.begin(), frame.payload.end());
  }
  if (!whole) return;
  Completion completion;
  completion.peer = peer_;
  completion.opcode = message_place_ ? Opcode::matched : Opcode::receive;
  if (message_place_) {
    completion.work_id = message_place_->token;
  } else {
    completion.payload = begins ? frame.payload : std::span<const std::byte>(message_);
  }
  sink.push(completion);
  drop_message();
}

void FrameReceiver::drop_message() {
  message_arrived_ = 0;
  message_place_.reset();
  message_.clear();
}

}  // namespace tutti::device::rc
