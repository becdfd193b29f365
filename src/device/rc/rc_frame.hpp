// The frames of the reliable connection (RC), which follow the 24-byte wire header in a datagram of
// kind `reliable`.
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
//   flags: bit 0 requests an ACK at once; bit 1: the frame acknowledges an arrival without delay;
//   bit 2: the frame is a retransmission; bit 3: the newest arrival had bit 2
//   then, by kind:
//     ack              count words of 8 bytes: bit i is set where acknowledged + 1 + i has arrived;
//                      with flag bit 0 a question whether the peer is alive
//     empty            padding of any length
//     send             message bytes (4), offset in the message (4), data
//     write            operation (4), key (8), offset (8), remaining (8), data
//     write_immediate  as write, then immediate (8), data; always the last frame of its operation
//     read_request     count ranges of 28 bytes: operation (4), key (8), offset (8), length (8)
//     read_response    operation (4), position in the answer (8), data
//     refused          operation (4)
//
// All fields are little-endian and unused ones are zero. `remaining` counts the operation's bytes
// from this frame's data on, so that each frame shows if the operation as a whole fits.
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
  ack = 1,              ///< ACK alone; the only kind without a sequence number
  empty = 2,            ///< ping, or replacement of a frame whose operation was refused
  send = 3,             ///< message, or part of one
  write = 4,            ///< one-sided write, or part of one
  write_immediate = 5,  ///< last part of a write that raises a completion at the receiver
  read_request = 6,     ///< request for ranges of registered memory
  read_response = 7,    ///< answer, or part of one
  refused = 8,          ///< failure of the peer's operation: invalid key or range
};

inline constexpr std::size_t kRcCommonBytes = 20;
inline constexpr std::size_t kRcSendHeaderBytes = kRcCommonBytes + 8;
inline constexpr std::size_t kRcWriteHeaderBytes = kRcCommonBytes + 28;
inline constexpr std::size_t kRcWriteImmediateHeaderBytes = kRcWriteHeaderBytes + 8;
inline constexpr std::size_t kRcReadResponseHeaderBytes = kRcCommonBytes + 12;
inline constexpr std::size_t kRcRefusedHeaderBytes = kRcCommonBytes + 4;
inline constexpr std::size_t kRcReadRangeBytes = 28;
inline constexpr std::size_t kRcMaxReadRanges = 8;  ///< ranges of one read_request
inline constexpr std::size_t kRcWordBytes = 8;

/// Frames that a receiver tracks from the first missing one on, and therefore the largest number of
/// unacknowledged frames.
inline constexpr std::size_t kRcReceiveWindowFrames = 1024;
inline constexpr std::size_t kRcMaxWords = kRcReceiveWindowFrames / 64;

/// Largest part of a frame that is not data: a full read_request.
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

/// A decoded frame. Fields that the kind lacks stay zero.
struct RcFrame {
  RcKind kind = RcKind::empty;
  bool acknowledge_now = false;
  bool fresh = false;           ///< acknowledges an arrival without delay, so it times a round trip
  bool resent = false;          ///< retransmission
  bool answers_resent = false;  ///< the newest arrival at the sender of this frame was `resent`
  std::uint16_t count = 0;      ///< ack: words; read_request: ranges; refused: the Code's number
  std::uint32_t source_incarnation = 0;
  std::uint32_t destination_incarnation = 0;
  std::uint32_t sequence = 0;
  std::uint32_t acknowledged = 0;
  std::uint32_t operation = 0;
  std::uint32_t message_bytes = 0;
  std::uint64_t key = 0;
  /// Offset in the message (send), the region (write) or the answer (read_response).
  std::uint64_t offset = 0;
  std::uint64_t remaining = 0;
  std::uint64_t immediate = 0;
  std::span<const std::byte> payload;  ///< data, or words or ranges still encoded
};

/// The data needed to build a frame again; payload stays in place.
struct FrameRecord {
  RcKind kind = RcKind::empty;
  std::uint8_t ranges = 0;      ///< read_request
  std::uint32_t operation = 0;  ///< own request, or the peer's for read_response and refused
  std::uint32_t bytes = 0;      ///< size of the data
  std::uint64_t position = 0;   ///< offset of the data in the operation
  std::uint64_t key = 0;        ///< read_response
  std::uint64_t offset = 0;     ///< read_response: offset of the operation in the region
};

/// One datagram behind the wire header: `header`, then `payload`.
struct OutgoingFrame {
  std::array<std::byte, kRcHeaderMax> header;
  std::size_t header_bytes = 0;
  std::span<const std::byte> payload;  ///< user memory, valid until the channel's next on_* call
  std::uint32_t sequence = 0;
  bool sequenced = false;
  bool repeated = false;  ///< this is a tail probe

  std::size_t size() const { return header_bytes + payload.size(); }
};

/// Writes the header before data, words or ranges and returns its size. `out` has room for
/// kRcHeaderMax bytes.
std::size_t encode(const RcFrame& frame, std::byte* out);
/// Writes one range (kRcReadRangeBytes).
void encode_range(const RcReadRange& range, std::byte* out);
/// Writes one word of an ack (kRcWordBytes).
void encode_word(std::uint64_t word, std::byte* out);

/// Decodes a frame. Nothing if a field contradicts the kind or the size; a decoded frame may still
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
