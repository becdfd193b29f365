#include "device/rc/rc_frame.hpp"

#include <fmt/format.h>

#include <bit>
#include <cstring>

namespace tutti::device::rc {
namespace {

static_assert(std::endian::native == std::endian::little, "the wire is little-endian");

constexpr unsigned kFlagAcknowledgeNow = 1;
constexpr unsigned kFlagFresh = 2;
constexpr unsigned kFlagResent = 4;
constexpr unsigned kFlagAnswersResent = 8;
constexpr unsigned kFlagAnswersQuestion = 16;
constexpr unsigned kFlagGaveUp = 32;
constexpr unsigned kFlagAlone = 64;
constexpr unsigned kFlagContinues = 128;

template <typename T>
std::byte* put(std::byte* out, T value) {
  std::memcpy(out, &value, sizeof value);
  return out + sizeof value;
}

template <typename T>
const std::byte* get(const std::byte* in, T& value) {
  std::memcpy(&value, in, sizeof value);
  return in + sizeof value;
}

/// Size in bytes of the header of this kind of frame, without data, bitmap words and READ ranges;
/// 0: unknown kind.
std::size_t header_bytes(RcKind kind) {
  switch (kind) {
    case RcKind::ack:
    case RcKind::empty:
    case RcKind::read_request:
      return kRcCommonBytes;
    case RcKind::send:
      return kRcSendHeaderBytes;
    case RcKind::write:
      return kRcWriteHeaderBytes;
    case RcKind::write_immediate:
      return kRcWriteImmediateHeaderBytes;
    case RcKind::read_response:
      return kRcReadResponseHeaderBytes;
    case RcKind::refused:
      return kRcRefusedHeaderBytes;
    case RcKind::atomic_request:
      return kRcAtomicRequestHeaderBytes;
    case RcKind::atomic_answer:
      return kRcAtomicAnswerHeaderBytes;
  }
  return 0;
}

void decode_fields(const std::byte* in, RcFrame& frame) {
  switch (frame.kind) {
    case RcKind::send: {
      std::uint32_t offset = 0;
      get(get(in, frame.message_bytes), offset);
      frame.offset = offset;
      return;
    }
    case RcKind::write:
    case RcKind::write_immediate:
      in = get(get(get(get(in, frame.operation), frame.key), frame.offset), frame.remaining);
      if (frame.kind == RcKind::write_immediate) get(in, frame.immediate);
      return;
    case RcKind::read_response:
      get(get(in, frame.operation), frame.offset);
      return;
    case RcKind::refused:
      get(in, frame.operation);
      return;
    case RcKind::atomic_request:
      in = get(get(get(in, frame.operation), frame.key), frame.offset);
      get(get(get(get(in, frame.atomic.compare_add), frame.atomic.swap), frame.atomic.compare_mask),
          frame.atomic.swap_mask);
      return;
    case RcKind::atomic_answer:
      get(get(in, frame.operation), frame.immediate);
      return;
    case RcKind::ack:
    case RcKind::empty:
    case RcKind::read_request:
      return;
  }
}

/// False if `offset` + `bytes` exceeds 64 bits.
bool fits(std::uint64_t offset, std::uint64_t bytes) { return offset <= UINT64_MAX - bytes; }

bool consistent(const RcFrame& frame) {
  const std::size_t bytes = frame.payload.size();
  if (frame.continues && frame.remaining == 0) return false;
  switch (frame.kind) {
    case RcKind::ack:
      return frame.sequence == 0 && frame.count <= kRcMaxWords &&
             bytes == frame.count * kRcWordBytes;
    case RcKind::empty:
      return frame.count <= kRcReceiveWindowFrames;
    case RcKind::send:
      return frame.count == 0 && frame.offset + bytes <= frame.message_bytes &&
             (bytes > 0 || frame.message_bytes == 0);
    case RcKind::write:
      return frame.count == 0 && bytes <= frame.remaining && (bytes > 0 || frame.remaining == 0) &&
             fits(frame.offset, frame.remaining);
    case RcKind::write_immediate:
      return frame.count == 0 && bytes == frame.remaining && fits(frame.offset, frame.remaining);
    case RcKind::read_request:
      return frame.count > 0 && frame.count <= kRcMaxReadRanges &&
             bytes == frame.count * kRcReadRangeBytes;
    case RcKind::read_response:
      return frame.count == 0 && fits(frame.offset, bytes);
    case RcKind::refused:
      return bytes == 0 && frame.count > static_cast<int>(Code::ok) &&
             frame.count <= static_cast<int>(Code::internal);
    case RcKind::atomic_request:
      return bytes == 0 && frame.count <= static_cast<int>(AtomicKind::fetch_add);
    case RcKind::atomic_answer:
      return bytes == 0 && frame.count == 0;
  }
  return false;
}

}  // namespace

std::vector<std::byte> OutgoingFrame::bytes() const {
  std::vector<std::byte> whole(header.begin(),
                               header.begin() + static_cast<std::ptrdiff_t>(header_bytes));
  whole.insert(whole.end(), payload.begin(), payload.end());
  return whole;
}

std::size_t encode(const RcFrame& frame, std::byte* out) {
  std::byte* at = put(out, static_cast<std::uint8_t>(frame.kind));
  const unsigned flags =
      (frame.acknowledge_now ? kFlagAcknowledgeNow : 0) | (frame.fresh ? kFlagFresh : 0) |
      (frame.resent ? kFlagResent : 0) | (frame.answers_resent ? kFlagAnswersResent : 0) |
      (frame.answers_question ? kFlagAnswersQuestion : 0) | (frame.gave_up ? kFlagGaveUp : 0) |
      (frame.alone ? kFlagAlone : 0) | (frame.continues ? kFlagContinues : 0);
  at = put(at, static_cast<std::uint8_t>(flags));
  at = put(at, frame.count);
  at = put(put(at, frame.source_incarnation), frame.destination_incarnation);
  at = put(put(at, frame.sequence), frame.acknowledged);
  switch (frame.kind) {
    case RcKind::send:
      at = put(put(at, frame.message_bytes), static_cast<std::uint32_t>(frame.offset));
      break;
    case RcKind::write:
    case RcKind::write_immediate:
      at = put(put(put(put(at, frame.operation), frame.key), frame.offset), frame.remaining);
      if (frame.kind == RcKind::write_immediate) at = put(at, frame.immediate);
      break;
    case RcKind::read_response:
      at = put(put(at, frame.operation), frame.offset);
      break;
    case RcKind::refused:
      at = put(at, frame.operation);
      break;
    case RcKind::atomic_request:
      at = put(put(put(at, frame.operation), frame.key), frame.offset);
      at = put(put(at, frame.atomic.compare_add), frame.atomic.swap);
      at = put(put(at, frame.atomic.compare_mask), frame.atomic.swap_mask);
      break;
    case RcKind::atomic_answer:
      at = put(put(at, frame.operation), frame.immediate);
      break;
    case RcKind::ack:
    case RcKind::empty:
    case RcKind::read_request:
      break;
  }
  return static_cast<std::size_t>(at - out);
}

void encode_range(const RcReadRange& range, std::byte* out) {
  put(put(put(put(out, range.operation), range.key), range.offset), range.length);
}

void encode_word(std::uint64_t word, std::byte* out) { put(out, word); }

std::optional<RcFrame> decode_rc(std::span<const std::byte> bytes) {
  if (bytes.size() < kRcCommonBytes) return std::nullopt;
  RcFrame frame;
  const auto flags = static_cast<unsigned>(bytes[1]);
  frame.kind = static_cast<RcKind>(bytes[0]);
  frame.acknowledge_now = (flags & kFlagAcknowledgeNow) != 0;
  const std::size_t header = header_bytes(frame.kind);
  if (header == 0 || bytes.size() < header) return std::nullopt;
  frame.fresh = (flags & kFlagFresh) != 0;
  frame.resent = (flags & kFlagResent) != 0;
  frame.answers_resent = (flags & kFlagAnswersResent) != 0;
  frame.answers_question = (flags & kFlagAnswersQuestion) != 0;
  frame.gave_up = (flags & kFlagGaveUp) != 0;
  frame.alone = (flags & kFlagAlone) != 0;
  frame.continues = (flags & kFlagContinues) != 0;
  const std::byte* at = get(bytes.data() + 2, frame.count);
  at = get(get(at, frame.source_incarnation), frame.destination_incarnation);
  at = get(get(at, frame.sequence), frame.acknowledged);
  decode_fields(at, frame);
  frame.payload = bytes.subspan(header);
  if (!consistent(frame)) return std::nullopt;
  return frame;
}

RcReadRange range_at(const RcFrame& frame, std::size_t index) {
  RcReadRange range;
  const std::byte* in = frame.payload.data() + index * kRcReadRangeBytes;
  get(get(get(get(in, range.operation), range.key), range.offset), range.length);
  return range;
}

std::uint64_t word_at(const RcFrame& frame, std::size_t index) {
  std::uint64_t word = 0;
  get(frame.payload.data() + index * kRcWordBytes, word);
  return word;
}

Code refusal_code(const RcFrame& frame) { return static_cast<Code>(frame.count); }

const char* to_string(RcKind kind) {
  switch (kind) {
    case RcKind::ack:
      return "ack";
    case RcKind::empty:
      return "empty";
    case RcKind::send:
      return "send";
    case RcKind::write:
      return "write";
    case RcKind::write_immediate:
      return "write_immediate";
    case RcKind::read_request:
      return "read_request";
    case RcKind::read_response:
      return "read_response";
    case RcKind::refused:
      return "refused";
    case RcKind::atomic_request:
      return "atomic_request";
    case RcKind::atomic_answer:
      return "atomic_answer";
  }
  return "unknown";
}

std::string to_string(const RcFrame& frame) {
  std::string text = fmt::format(
      "{} seq {} ack {}{}{}{}{}{}{}{} from {:#x} to {:#x}", to_string(frame.kind), frame.sequence,
      frame.acknowledged, frame.acknowledge_now ? " now" : "", frame.fresh ? " fresh" : "",
      frame.resent ? " resent" : "", frame.answers_resent ? " answers-resent" : "",
      frame.answers_question ? " answers-question" : "", frame.gave_up ? " gave-up" : "",
      frame.continues ? " continues" : "", frame.source_incarnation, frame.destination_incarnation);
  switch (frame.kind) {
    case RcKind::ack:
      return text + fmt::format(" words {}", frame.count);
    case RcKind::empty:
      return text;
    case RcKind::send:
      return text + fmt::format(" message {} offset {} ({} bytes)", frame.message_bytes,
                                frame.offset, frame.payload.size());
    case RcKind::write:
    case RcKind::write_immediate:
      text +=
          fmt::format(" operation {} key {:#x} offset {} remaining {} ({} bytes)", frame.operation,
                      frame.key, frame.offset, frame.remaining, frame.payload.size());
      if (frame.kind == RcKind::write) return text;
      return text + fmt::format(" immediate {:#x}", frame.immediate);
    case RcKind::read_request:
      return text + fmt::format(" ranges {}", frame.count);
    case RcKind::read_response:
      return text + fmt::format(" operation {} position {} ({} bytes)", frame.operation,
                                frame.offset, frame.payload.size());
    case RcKind::refused:
      return text + fmt::format(" operation {} {}", frame.operation,
                                tutti::to_string(refusal_code(frame)));
    case RcKind::atomic_request:
      return text + fmt::format(" operation {} key {:#x} offset {}", frame.operation, frame.key,
                                frame.offset);
    case RcKind::atomic_answer:
      return text + fmt::format(" operation {} old value {:#x}", frame.operation, frame.immediate);
  }
  return text;
}

}  // namespace tutti::device::rc
