#include "protocol/codec/data_message.hpp"

#include <cstring>

namespace tutti::protocol {

void encode_data_header(std::uint32_t epoch, std::uint32_t slot, std::byte* out) {
  std::memset(out, 0, 4);
  out[0] = kDataMessageKind;
  std::memcpy(out + 4, &epoch, 4);
  std::memcpy(out + 8, &slot, 4);
}

std::optional<DataMessage> decode_data(std::span<const std::byte> bytes) {
  if (bytes.size() < kDataHeaderBytes || !is_data_message(bytes)) return std::nullopt;
  for (std::size_t i = 1; i < 4; ++i) {
    if (bytes[i] != std::byte{0}) return std::nullopt;
  }
  DataMessage message;
  std::memcpy(&message.epoch, bytes.data() + 4, 4);
  std::memcpy(&message.slot, bytes.data() + 8, 4);
  message.payload = bytes.subspan(kDataHeaderBytes);
  return message;
}

std::array<std::byte, kClearToSendBytes> encode(const ClearToSend& clear) {
  std::array<std::byte, kClearToSendBytes> bytes;
  std::memcpy(bytes.data(), &clear.key, 8);
  std::memcpy(bytes.data() + 8, &clear.offset, 8);
  std::memcpy(bytes.data() + 16, &clear.size_bytes, 8);
  return bytes;
}

std::optional<ClearToSend> decode_clear_to_send(std::span<const std::byte> bytes) {
  if (bytes.size() != kClearToSendBytes) return std::nullopt;
  ClearToSend clear;
  std::memcpy(&clear.key, bytes.data(), 8);
  std::memcpy(&clear.offset, bytes.data() + 8, 8);
  std::memcpy(&clear.size_bytes, bytes.data() + 16, 8);
  return clear;
}

std::array<std::byte, kReadyToSendBytes> encode(const ReadyToSend& ready) {
  std::array<std::byte, kReadyToSendBytes> bytes;
  std::memcpy(bytes.data(), &ready.slot, 4);
  std::memcpy(bytes.data() + 4, &ready.size_bytes, 8);
  return bytes;
}

std::optional<ReadyToSend> decode_ready_to_send(std::span<const std::byte> bytes) {
  if (bytes.size() != kReadyToSendBytes) return std::nullopt;
  ReadyToSend ready;
  std::memcpy(&ready.slot, bytes.data(), 4);
  std::memcpy(&ready.size_bytes, bytes.data() + 4, 8);
  return ready;
}

}  // namespace tutti::protocol
