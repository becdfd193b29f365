// The encoding of a schedule's data message: a short header before the bytes. It shares the
// reliable connections with the messages of protocol machines; the first byte distinguishes the
// two.
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

/// The first byte; no MessageKind has this value.
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

/// Writes the header to `out` (kDataHeaderBytes).
void encode_data_header(std::uint32_t epoch, std::uint32_t slot, std::byte* out);
/// Decodes a message; nothing if it is too short or its header is invalid. `payload` refers to
/// `bytes`.
std::optional<DataMessage> decode_data(std::span<const std::byte> bytes);

/// Destination of a rendezvous transfer, the payload of a clear-to-send ([Inozemtsev12] 4.1).
struct ClearToSend {
  std::uint64_t key = 0;
  std::uint64_t offset = 0;
};
inline constexpr std::size_t kClearToSendBytes = 16;

std::array<std::byte, kClearToSendBytes> encode(const ClearToSend& clear);
/// Nothing unless the bytes are exactly one clear-to-send.
std::optional<ClearToSend> decode_clear_to_send(std::span<const std::byte> bytes);

}  // namespace tutti::protocol
