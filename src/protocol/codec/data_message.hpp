// The encoding of a schedule's data messages: a short header before the bytes. Data messages share
// the reliable connections with the messages of protocol machines; the first byte distinguishes
// them.
//
//    0        1                 4                 8                 12
//   +--------+-----------------+-----------------+-----------------+----------------
//   |  kind  |  zero           |  epoch          |  slot           |  bytes ...
//   +--------+-----------------+-----------------+-----------------+----------------
//
// All fields are little-endian.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace tutti::protocol {

/// The first byte of a data message; no MessageKind has this value.
inline constexpr std::byte kDataMessageKind{0x80};
inline constexpr std::size_t kDataHeaderBytes = 12;

struct DataMessage {
  std::uint32_t epoch = 0;
  std::uint32_t slot = 0;
  std::span<const std::byte> payload;
};

inline bool is_data_message(std::span<const std::byte> bytes) {
  return !bytes.empty() && bytes[0] == kDataMessageKind;
}

/// Writes the header of a data message, kDataHeaderBytes bytes, to `out`.
void encode_data_header(std::uint32_t epoch, std::uint32_t slot, std::byte* out);
/// Decodes a data message; nothing if it is too short or its header is invalid. The result's
/// `payload` points into `bytes`.
std::optional<DataMessage> decode_data(std::span<const std::byte> bytes);

/// The content of a clear-to-send: the destination of a rendezvous transfer ([Inozemtsev12] 4.1).
struct ClearToSend {
  std::uint64_t key = 0;
  std::uint64_t offset = 0;
  std::uint64_t size_bytes = 0;  ///< size of the message that the receiver expects; 0 for a counter
};
inline constexpr std::size_t kClearToSendBytes = 24;

std::array<std::byte, kClearToSendBytes> encode(const ClearToSend& clear);
/// Decodes a clear-to-send; nothing unless the bytes are exactly one clear-to-send.
std::optional<ClearToSend> decode_clear_to_send(std::span<const std::byte> bytes);

/// The content of a ready-to-send: the sender of a rendezvous transfer still waits for the
/// clear-to-send.
struct ReadyToSend {
  std::uint32_t slot = 0;  ///< match slot of the transfer
  std::uint64_t size_bytes = 0;
};
inline constexpr std::size_t kReadyToSendBytes = 12;
/// The match slot of every ready-to-send. No CTS has it, because Schedule::make refuses the data
/// slot 0x7fff'ffff.
inline constexpr std::uint32_t kReadySlot = UINT32_MAX;

std::array<std::byte, kReadyToSendBytes> encode(const ReadyToSend& ready);
/// Decodes a ready-to-send; nothing unless the bytes are exactly one ready-to-send.
std::optional<ReadyToSend> decode_ready_to_send(std::span<const std::byte> bytes);

}  // namespace tutti::protocol
