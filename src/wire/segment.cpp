#include "wire/segment.hpp"

#include <cstring>

namespace tutti::wire {

void encode(const Segment& segment, std::byte* out) {
  encode(segment.message, out);
  std::memcpy(out + kHeaderBytes, &segment.offset, 4);
  std::memcpy(out + kHeaderBytes + 4, &segment.message_bytes, 4);
}

std::optional<Segment> decode_segment(std::span<const std::byte> header,
                                      std::size_t payload_bytes) {
  if (header.size() < kSegmentHeaderBytes) return std::nullopt;
  if (payload_bytes == 0 || payload_bytes > kMaxMessageBytes) return std::nullopt;
  const auto message = decode(header);
  if (!message || message->kind != PacketKind::message) return std::nullopt;
  Segment segment{.message = *message, .bytes = static_cast<std::uint32_t>(payload_bytes)};
  std::memcpy(&segment.offset, header.data() + kHeaderBytes, 4);
  std::memcpy(&segment.message_bytes, header.data() + kHeaderBytes + 4, 4);
  if (segment.message_bytes > kMaxMessageBytes) return std::nullopt;
  if (std::uint64_t{segment.offset} + payload_bytes > segment.message_bytes) return std::nullopt;
  return segment;
}

}  // namespace tutti::wire
