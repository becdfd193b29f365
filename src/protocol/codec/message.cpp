#include "protocol/codec/message.hpp"

#include <cstring>

namespace tutti::protocol {

namespace {

constexpr std::size_t kFixedBytes = 16;

}  // namespace

std::size_t encode(const Message& message, std::byte* out) {
  out[0] = static_cast<std::byte>(message.kind);
  out[1] = std::byte{0};
  const auto count = static_cast<std::uint16_t>(message.range_count);
  std::memcpy(out + 2, &count, 2);
  std::memcpy(out + 4, &message.epoch, 4);
  std::memcpy(out + 8, &message.argument, 8);
  for (std::uint32_t i = 0; i < message.range_count; ++i) {
    std::memcpy(out + kFixedBytes + i * 8, &message.ranges[i].first, 4);
    std::memcpy(out + kFixedBytes + i * 8 + 4, &message.ranges[i].last, 4);
  }
  return kFixedBytes + message.range_count * 8;
}

std::optional<Message> decode(std::span<const std::byte> bytes) {
  if (bytes.size() < kFixedBytes) return std::nullopt;
  const auto kind = static_cast<std::uint8_t>(bytes[0]);
  if (kind < static_cast<std::uint8_t>(MessageKind::barrier)) return std::nullopt;
  if (kind > static_cast<std::uint8_t>(MessageKind::last_kind)) return std::nullopt;
  std::uint16_t count = 0;
  std::memcpy(&count, bytes.data() + 2, 2);
  if (count > kMaxRanges || bytes.size() != kFixedBytes + count * 8u) return std::nullopt;
  Message message;
  message.kind = static_cast<MessageKind>(kind);
  std::memcpy(&message.epoch, bytes.data() + 4, 4);
  std::memcpy(&message.argument, bytes.data() + 8, 8);
  message.range_count = count;
  for (std::uint32_t i = 0; i < count; ++i) {
    Range& range = message.ranges[i];
    std::memcpy(&range.first, bytes.data() + kFixedBytes + i * 8, 4);
    std::memcpy(&range.last, bytes.data() + kFixedBytes + i * 8 + 4, 4);
    if (range.first >= range.last) return std::nullopt;
  }
  return message;
}

const char* to_string(MessageKind kind) {
  static constexpr const char* kNames[] = {"?",
                                           "barrier",
                                           "activate",
                                           "fetch_request",
                                           "fetch_ready",
                                           "fetch_pending",
                                           "fetch_lost",
                                           "fetch_expired",
                                           "retransmit_request",
                                           "final",
                                           "credit",
                                           "grant",
                                           "failed",
                                           "window",
                                           "credit_batch",
                                           "refused",
                                           "leave",
                                           "delivered",
                                           "slot_nack",
                                           "slot_ack_request",
                                           "slot_ack",
                                           "closing"};
  return kNames[static_cast<std::uint8_t>(kind)];
}

}  // namespace tutti::protocol
