#include "wire/uc_fragment.hpp"

#include <cstring>

namespace tutti::wire {

void encode(const UcFragment& fragment, std::byte* out) {
  encode(fragment.message, out);
  std::memcpy(out + kHeaderBytes, &fragment.offset, 4);
  std::memcpy(out + kHeaderBytes + 4, &fragment.message_bytes, 4);
}

std::optional<UcFragment> decode_fragment(std::span<const std::byte> header,
                                          std::size_t payload_bytes) {
  if (header.size() < kFragmentHeaderBytes) return std::nullopt;
  if (payload_bytes == 0 || payload_bytes > kMaxMessageBytes) return std::nullopt;
  const auto message = decode(header);
  if (!message || message->kind != PacketKind::message) return std::nullopt;
  UcFragment fragment{.message = *message, .bytes = static_cast<std::uint32_t>(payload_bytes)};
  std::memcpy(&fragment.offset, header.data() + kHeaderBytes, 4);
  std::memcpy(&fragment.message_bytes, header.data() + kHeaderBytes + 4, 4);
  if (fragment.message_bytes > kMaxMessageBytes) return std::nullopt;
  if (std::uint64_t{fragment.offset} + payload_bytes > fragment.message_bytes) return std::nullopt;
  return fragment;
}

}  // namespace tutti::wire
