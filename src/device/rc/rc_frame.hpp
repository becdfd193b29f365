// The frames of the reliable connection (RC): what stands behind the 24-byte wire header in a
// datagram of kind `reliable`.
//
//    0        1        2        3
//   +--------+--------+-----------------+
//   |  kind  | flags  |      count      |  count: words, ranges, or the code of a refusal
//   +--------+--------+-----------------+
//   |        source incarnation         |  incarnations: random per endpoint, so that frames of an
//   +-----------------------------------+  earlier life of either side are recognised
//   |      destination incarnation      |
//   +-----------------------------------+
//   |             sequence              |  of this frame; 0 in `ack`, which has none
//   +-----------------------------------+
//   |           acknowledged            |  the next sequence that the sender of this frame expects
//   +-----------------------------------+
//   flags: bit 0 asks for an acknowledgement at once; bit 1 says that it answers an arrival just
//   now; bit 2 that the frame was sent before; bit 3 that the newest arrival had bit 2
//   then, by kind:
//     ack              count words of 8 bytes: bit i is set where acknowledged + 1 + i has arrived
//     empty            nothing
//     send             message bytes (4), offset in the message (4), data
//     write            operation (4), key (8), offset (8), remaining (8), data
//     write_immediate  as write, then immediate (8), data; always the last frame of its operation
//     read_request     count ranges of 28 bytes: operation (4), key (8), offset (8), length (8)
//     read_response    operation (4), position in the answer (8), data
//     refused          operation (4)
//
// All fields are little-endian and unused ones are zero. `remaining` counts the operation's bytes
// from this frame's data on, so that each frame shows whether the operation as a whole fits.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "tutti/status.hpp"

namespace tutti::device::rc {

enum class RcKind : std::uint8_t {
  ack = 1,              ///< acknowledgement alone; the only kind without a sequence number
  empty = 2,            ///< sign of life, or the stand-in for a frame whose operation was refused
  send = 3,             ///< (part of) a message
  write = 4,            ///< (part of) a one-sided write
  write_immediate = 5,  ///< the last part of a write that raises a completion at the receiver
  read_request = 6,     ///< asks for ranges of registered memory
  read_response = 7,    ///< (part of) an answer
  refused = 8,          ///< the peer's operation failed here: its key or range is not valid
};

inline constexpr std::size_t kRcCommonBytes = 20;
inline constexpr std::size_t kRcSendHeaderBytes = kRcCommonBytes + 8;
inline constexpr std::size_t kRcWriteHeaderBytes = kRcCommonBytes + 28;
inline constexpr std::size_t kRcWriteImmediateHeaderBytes = kRcWriteHeaderBytes + 8;
inline constexpr std::size_t kRcReadResponseHeaderBytes = kRcCommonBytes + 12;
inline constexpr std::size_t kRcRefusedHeaderBytes = kRcCommonBytes + 4;
inline constexpr std::size_t kRcReadRangeBytes = 28;
inline constexpr std::size_t kRcMaxReadRanges = 8;  ///< in one read_request
inline constexpr std::size_t kRcWordBytes = 8;

/// Frames that a receiver tracks from the first missing one on, and so the most that a sender may
/// have unacknowledged.
inline constexpr std::size_t kRcReceiveWindowFrames = 1024;
inline constexpr std::size_t kRcMaxWords = kRcReceiveWindowFrames / 64;

/// The longest part of a frame that is not data: a full read_request.
inline constexpr std::size_t kRcHeaderMax = kRcCommonBytes + kRcMaxReadRanges * kRcReadRangeBytes;
static_assert(kRcHeaderMax >= kRcCommonBytes + kRcMaxWords * kRcWordBytes);
static_assert(kRcHeaderMax >= kRcWriteImmediateHeaderBytes);

/// One range of a read_request.
struct RcReadRange {
  std::uint32_t operation = 0;
  std::uint64_t key = 0;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;

  friend bool operator==(const RcReadRange&, const RcReadRange&) = default;
};

/// A frame, decoded. Fields that the kind lacks stay zero.
struct RcFrame {
  RcKind kind = RcKind::empty;
  bool acknowledge_now = false;
  bool fresh =
      false;  ///< `acknowledged` or the words tell of an arrival of just now: times a round trip
  bool resent = false;          ///< was sent before
  bool answers_resent = false;  ///< the newest arrival at the sender of this frame was `resent`
  std::uint16_t count = 0;      ///< ack: words; read_request: ranges; refused: the Code's number
  std::uint32_t source_incarnation = 0;
  std::uint32_t destination_incarnation = 0;
  std::uint32_t sequence = 0;
  std::uint32_t acknowledged = 0;
  std::uint32_t operation = 0;
  std::uint32_t message_bytes = 0;
  std::uint64_t key = 0;
  std::uint64_t offset =
      0;  ///< send: in the message; write: in the region; response: in the answer
  std::uint64_t remaining = 0;
  std::uint64_t immediate = 0;
  std::span<const std::byte> payload;  ///< the data, or the words or ranges still encoded
};

/// Writes everything in front of the data, words or ranges; returns its size. `out` has room for
/// kRcHeaderMax bytes.
std::size_t encode(const RcFrame& frame, std::byte* out);
/// Writes one range (kRcReadRangeBytes).
void encode_range(const RcReadRange& range, std::byte* out);
/// Writes one word of an ack (kRcWordBytes).
void encode_word(std::uint64_t word, std::byte* out);

/// Reads a frame. Nothing where any field contradicts the kind or the size; what passes can still
/// name operations and memory that do not exist. `payload` refers to `bytes`.
std::optional<RcFrame> decode_rc(std::span<const std::byte> bytes);
/// Range `index` of a decoded read_request, index < count.
RcReadRange range_at(const RcFrame& frame, std::size_t index);
/// Word `index` of a decoded ack, index < count.
std::uint64_t word_at(const RcFrame& frame, std::size_t index);
/// The code of a decoded `refused`.
Code refusal_code(const RcFrame& frame);

const char* to_string(RcKind kind);
/// "write seq 12 ack 7 operation 3 key 0x... offset 4096 remaining 100 (64 bytes)" for logs.
std::string to_string(const RcFrame& frame);

}  // namespace tutti::device::rc
