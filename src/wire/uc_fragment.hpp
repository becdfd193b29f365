// The header of a UC fragment: one datagram of a UC message, which is a chunk ([Khalilov24] 5.2).
//
//   +-----------------------------------+
//   |  header of the message, 32 bytes  |  wire/header.hpp, kind `message`, equal in all fragments;
//   |                                   |  its tag covers the payload of the whole message
//   +-----------------------------------+
//   |              offset               |  offset of this fragment's payload
//   +-----------------------------------+
//   |           message bytes           |
//   +-----------------------------------+
//
// The tag does not cover the last two fields, because a fragment at a wrong place makes the check
// of the message's tag fail.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "wire/header.hpp"

namespace tutti::wire {

inline constexpr std::size_t kFragmentHeaderBytes = kHeaderBytes + 8;
/// Largest UC message in bytes, headers of its fragments included: the kernel's limit for one
/// segmented send (UDP GSO).
inline constexpr std::size_t kMaxMessageBytes = 65507;

struct UcFragment {
  Header message;
  std::uint32_t offset = 0;
  std::uint32_t bytes = 0;  ///< payload bytes of this fragment
  std::uint32_t message_bytes = 0;

  bool begins() const { return offset == 0; }
  friend bool operator==(const UcFragment&, const UcFragment&) = default;
};

/// Writes the header of a fragment, 40 bytes; the first 32 are the header of the message.
void encode(const UcFragment& fragment, std::byte* out);

/// Decodes the header of a fragment with `payload_bytes` bytes of payload; `header` may end before
/// the payload. Returns nothing if the datagram is not a fragment, has no payload, or does not lie
/// within a message of allowed size.
std::optional<UcFragment> decode_fragment(std::span<const std::byte> header,
                                          std::size_t payload_bytes);

}  // namespace tutti::wire
