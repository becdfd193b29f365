#include "protocol/codec/tagged_message.hpp"

#include <algorithm>
#include <cstring>

namespace tutti::protocol {

namespace {

std::size_t header_bytes(TaggedKind kind) {
  switch (kind) {
    case TaggedKind::eager:
      return kEagerHeaderBytes;
    case TaggedKind::ready:
      return kMaxTaggedHeaderBytes;
    case TaggedKind::pulled:
    case TaggedKind::credit:
      return 8;
  }
  return 0;
}

}  // namespace

std::size_t encode_tagged(const TaggedMessage& message,
                          std::array<std::byte, kMaxTaggedHeaderBytes>& out) {
  out.fill(std::byte{0});
  out[0] = static_cast<std::byte>(message.kind);
  std::memcpy(out.data() + 4, &message.number, 4);
  std::memcpy(out.data() + 8, &message.tag, 8);
  std::memcpy(out.data() + 16, &message.length_bytes, 8);
  std::memcpy(out.data() + 24, &message.key, 8);
  return header_bytes(message.kind);
}

std::optional<TaggedMessage> decode_tagged(std::span<const std::byte> bytes) {
  if (!is_tagged_message(bytes)) return std::nullopt;
  TaggedMessage message;
  message.kind = static_cast<TaggedKind>(bytes[0]);
  const std::size_t header = header_bytes(message.kind);
  const bool eager = message.kind == TaggedKind::eager;
  if (eager ? bytes.size() < header : bytes.size() != header) return std::nullopt;
  const auto zeros = bytes.subspan(1, eager ? 7 : 3);
  if (!std::all_of(zeros.begin(), zeros.end(), [](std::byte b) { return b == std::byte{0}; }))
    return std::nullopt;
  std::memcpy(&message.number, bytes.data() + 4, 4);
  if (header >= kEagerHeaderBytes) std::memcpy(&message.tag, bytes.data() + 8, 8);
  if (header == kMaxTaggedHeaderBytes) {
    std::memcpy(&message.length_bytes, bytes.data() + 16, 8);
    std::memcpy(&message.key, bytes.data() + 24, 8);
  }
  if (eager) message.payload = bytes.subspan(header);
  return message;
}

}  // namespace tutti::protocol
