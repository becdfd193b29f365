#include "device/rc/rc_response_queue.hpp"

#include <algorithm>

#include "device/atomics.hpp"

namespace tutti::device::rc {

void ResponseQueue::add_reads(const RcFrame& request) {
  for (std::size_t i = 0; i < request.count; ++i) {
    const RcReadRange range = range_at(request, i);
    Response response;
    response.operation = range.operation;
    response.key = range.key;
    response.offset = range.offset;
    response.length = range.length;
    if (range.length > 0 && !memory_.resolve(range.key, range.offset, range.length)) {
      response.kind = RcKind::refused;
      ++counters_.refused_operations;
    }
    // The queue is full only if a peer opens more READs than the protocol allows.
    if (!push(response)) ++counters_.rejected_malformed;
  }
}

void ResponseQueue::execute_atomic(const RcFrame& request) {
  if (full()) {
    ++counters_.rejected_malformed;
    return;
  }
  Response response{.kind = RcKind::atomic_answer, .operation = request.operation};
  const auto memory = memory_.resolve(request.key, request.offset, kAtomicBytes);
  const auto old = memory ? execute(static_cast<AtomicKind>(request.count), *memory, request.atomic)
                          : std::nullopt;
  if (old) {
    response.old_value = *old;
    ++counters_.atomics_served;
  } else {
    response.kind = RcKind::refused;
    ++counters_.refused_operations;
  }
  push(response);
}

bool ResponseQueue::refuse_write(std::uint32_t operation) {
  Response refusal;
  refusal.kind = RcKind::refused;
  refusal.operation = operation;
  if (!push(refusal)) return false;
  ++counters_.refused_operations;
  return true;
}

bool ResponseQueue::push(const Response& response) {
  if (slots_.empty()) slots_.resize(kSlots);
  if (full()) return false;
  slots_[end_++ % kSlots] = response;
  return true;
}

void ResponseQueue::cut(bool undelivered, FrameRecord& record) {
  Response& response = slots_[first_ % kSlots];
  record.kind = response.kind;
  record.operation = response.operation;
  record.old_value = response.old_value;
  if (response.kind == RcKind::read_response) {
    const std::uint64_t room = max_frame_bytes_ - kRcReadResponseHeaderBytes;
    record.key = response.key;
    record.offset = response.offset;
    record.position = response.position;
    record.bytes = static_cast<std::uint32_t>(std::min(room, response.length - response.position));
    response.position += record.bytes;
    const bool gone =
        undelivered ||
        (response.length > 0 && !memory_.resolve(response.key, response.offset, response.length));
    if (gone) record.kind = RcKind::refused;
    if (!gone && response.position < response.length) return;
  }
  ++first_;
}

void ResponseQueue::fill(bool undelivered, FrameRecord& record, RcFrame& out,
                         OutgoingFrame& frame) const {
  out.operation = record.operation;
  if (record.kind == RcKind::atomic_answer) {
    out.immediate = record.old_value;
    return;
  }
  if (record.kind == RcKind::read_response) {
    out.offset = record.position;
    if (record.bytes == 0) return;
    const auto data = memory_.resolve(record.key, record.offset + record.position, record.bytes);
    if (data && !undelivered) {
      frame.payload = *data;
      return;
    }
    // The record itself becomes a refusal, so that each retransmission of this frame is a refusal,
    // too: an invalid key never becomes valid again.
    record.kind = RcKind::refused;
    out.kind = RcKind::refused;
    out.offset = 0;
  }
  out.count = static_cast<std::uint16_t>(undelivered ? Code::peer_failed : Code::invalid_argument);
}

}  // namespace tutti::device::rc
