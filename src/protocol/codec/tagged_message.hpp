// The encoding of tagged messages between two ranks, and of the answers to them. Tagged messages
// share the reliable connections with the messages of protocol machines; the first byte
// distinguishes them.
//
//    0        1              4              8              16             24             32
//   +--------+--------------+--------------+--------------+--------------+--------------+
//   | eager  |  zero        |  zero        |  tag         |  bytes of the message ...   |
//   | ready  |  zero        |  number      |  tag         |  length      |  key         |
//   | pulled |  zero        |  number      |
//   | credit |  zero        |  bytes       |
//   +--------+--------------+--------------+--------------+--------------+--------------+
//
// All fields are little-endian. `ready` announces a message that the receiver READs from the
// sender's memory, `pulled` says that the receiver no longer needs that memory, and `credit` tells
// how much room for eager messages is free again.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace tutti::protocol {

/// The first byte of a tagged message; no MessageKind has one of these values.
enum class TaggedKind : std::uint8_t { eager = 0x81, ready, pulled, credit, last = credit };

struct TaggedMessage {
  TaggedKind kind = TaggedKind::eager;
  /// The sender's number of the message. In a `credit` message: the number of further bytes that
  /// the receiver of the credit may send eagerly.
  std::uint32_t number = 0;
  std::uint64_t tag = 0;
  std::uint64_t length_bytes = 0;  ///< length of the message that `ready` announces
  std::uint64_t key = 0;           ///< memory key of the message that `ready` announces
  std::span<const std::byte> payload{};
};

inline constexpr std::size_t kEagerHeaderBytes = 16;
inline constexpr std::size_t kMaxTaggedHeaderBytes = 32;

inline bool is_tagged_message(std::span<const std::byte> bytes) {
  return !bytes.empty() && bytes[0] >= static_cast<std::byte>(TaggedKind::eager) &&
         bytes[0] <= static_cast<std::byte>(TaggedKind::last);
}

/// Writes the header of a message, everything but the payload, to `out`. Returns the header's
/// length.
std::size_t encode_tagged(const TaggedMessage& message,
                          std::array<std::byte, kMaxTaggedHeaderBytes>& out);
/// Decodes a message; nothing unless the bytes are exactly one message. The result's `payload`
/// points into `bytes`.
std::optional<TaggedMessage> decode_tagged(std::span<const std::byte> bytes);

}  // namespace tutti::protocol
