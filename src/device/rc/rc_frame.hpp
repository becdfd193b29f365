// The frames of the reliable connection (RC), which follow the 32-byte wire header in a datagram of
// kind `reliable`.
//
//    0        1        2        3
//   +--------+--------+-----------------+
//   |  kind  | flags  |      count      |  count: words, ranges, AtomicKind, error code or frames
//   +--------+--------+-----------------+
//   |        source incarnation         |  incarnations: random per endpoint, so that frames of an
//   +-----------------------------------+  earlier incarnation of either side are recognised
//   |      destination incarnation      |
//   +-----------------------------------+
//   |             sequence              |  of this frame; 0 in `ack`, which has none
//   +-----------------------------------+
//   |           acknowledged            |  the next sequence that the sender of this frame expects
//   +-----------------------------------+
//   flags: bit 0 requests an ACK at once; bit 1: the frame acknowledges an arrival without delay;
//   bit 2: the frame is a retransmission; bit 3: the newest arrival had bit 2; bit 4: the frame
//   answers an `ack` with bit 0; bit 5: the sender has declared the receiver lost; bit 6: with
//   bit 5, the sender may be at fault itself; bit 7: the frame continues a WRITE that an earlier
//   frame has begun
//   the further fields of each kind:
//     ack              count words of 8 bytes: bit i is set if acknowledged + 1 + i has arrived;
//                      with flag bit 0 a question to the peer
//     empty            padding of any length; the sender has given up its requests in this frame
//                      and in the count frames after it, and they have no effect even if they
//                      arrive
//     send             message bytes (4), offset in the message (4), data
//     write            operation (4), key (8), offset (8), remaining (8), data
//     write_immediate  as write, then immediate (8), data; always the last frame of its operation
//     read_request     count ranges of 28 bytes: operation (4), key (8), offset (8), length (8)
//     read_response    operation (4), position in the answer (8), data
//     refused          operation (4)
//     atomic_request   operation (4), key (8), offset (8), compare or add (8), swap (8),
//                      compare mask or field boundaries (8), swap mask (8)
//     atomic_answer    operation (4), old value (8)
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
#include <vector>

#include "base/masked_atomics.hpp"
#include "tutti/status.hpp"

namespace tutti::device::rc {

enum class RcKind : std::uint8_t {
  ack = 1,    ///< ACK without data; the only kind without a sequence number
  empty = 2,  ///< ping, or substitute for a frame whose operation was refused or abandoned
  send = 3,   ///< message of a SEND, or part of a message
  write = 4,  ///< data of a WRITE, or part of the data
  /// Last part of a WRITE with immediate, which raises a completion at the receiver.
  write_immediate = 5,
  read_request = 6,    ///< request for ranges of registered memory
  read_response = 7,   ///< answer to a READ, or part of an answer
  refused = 8,         ///< refusal of the peer's operation, with an error code
  atomic_request = 9,  ///< atomic on a word of registered memory
  atomic_answer = 10,  ///< old value of the word of an atomic
};

inline constexpr std::size_t kRcCommonBytes = 20;
inline constexpr std::size_t kRcSendHeaderBytes = kRcCommonBytes + 8;
inline constexpr std::size_t kRcWriteHeaderBytes = kRcCommonBytes + 28;
inline constexpr std::size_t kRcWriteImmediateHeaderBytes = kRcWriteHeaderBytes + 8;
inline constexpr std::size_t kRcReadResponseHeaderBytes = kRcCommonBytes + 12;
inline constexpr std::size_t kRcRefusedHeaderBytes = kRcCommonBytes + 4;
inline constexpr std::size_t kRcAtomicRequestHeaderBytes = kRcCommonBytes + 52;
inline constexpr std::size_t kRcAtomicAnswerHeaderBytes = kRcCommonBytes + 12;
inline constexpr std::size_t kRcReadRangeBytes = 28;
/// Largest number of ranges in one read_request.
inline constexpr std::size_t kRcMaxReadRanges = 8;
inline constexpr std::size_t kRcWordBytes = 8;

/// Number of frames that a receiver tracks, from the first missing one on. A sender may have at
/// most this many unacknowledged frames.
inline constexpr std::size_t kRcReceiveWindowFrames = 1024;
inline constexpr std::size_t kRcMaxWords = kRcReceiveWindowFrames / 64;

/// Bytes of the longest header, that of a read_request with kRcMaxReadRanges ranges.
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
  /// True if the ACK in this frame reports a new arrival without delay. An ACK with this flag
  /// measures a round trip; any other ACK gives only an upper bound of the round trip.
  bool fresh = false;
  bool resent = false;  ///< retransmission
  /// True if `resent` was set in the newest frame that the sender of this frame had received.
  bool answers_resent = false;
  /// True if the frame answers a question; a question is an ack frame that requests an ACK.
  bool answers_question = false;
  bool gave_up = false;    ///< the sender has declared the receiver lost
  bool alone = false;      ///< the sender got no answer from other ranks either
  bool continues = false;  ///< an earlier frame has begun the same WRITE
  /// Depends on the kind: number of words (ack), number of ranges (read_request), AtomicKind
  /// (atomic_request), error code (refused) or number of further frames given up (empty).
  std::uint16_t count = 0;
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
  std::uint64_t immediate = 0;  ///< immediate (write_immediate) or old value (atomic_answer)
  AtomicOperands atomic{};
  /// Data of the frame; in an ack frame the encoded words of the bitmap, in a read_request the
  /// encoded ranges.
  std::span<const std::byte> payload;
};

/// The values from which a frame is built again for a retransmission; the payload is not copied.
struct FrameRecord {
  RcKind kind = RcKind::empty;
  std::uint8_t ranges = 0;  ///< number of ranges (read_request)
  /// Number of the request to which the frame belongs. A read_response, atomic_answer or refused
  /// frame belongs to a request of the peer, and any other frame to a request of this rank.
  std::uint32_t operation = 0;
  std::uint32_t bytes = 0;      ///< size of the data in bytes
  std::uint64_t position = 0;   ///< offset of the data in the operation
  std::uint64_t key = 0;        ///< key of the region (read_response)
  std::uint64_t offset = 0;     ///< offset of the READ in the region (read_response)
  std::uint64_t old_value = 0;  ///< old value of the word (atomic_answer)
};

/// One frame to be sent: `header`, then `payload`.
struct OutgoingFrame {
  std::array<std::byte, kRcHeaderMax> header;
  std::size_t header_bytes = 0;
  /// Data, not copied; valid until the channel's next on_* call.
  std::span<const std::byte> payload;
  std::uint32_t sequence = 0;
  bool sequenced = false;
  bool resent = false;    ///< true if the frame was sent before
  bool repeated = false;  ///< true if the frame is a tail probe
  bool asks = false;      ///< true if the frame is an ACK that requests an answer
  bool answers = false;   ///< true if the frame answers a question of the peer

  std::size_t size() const { return header_bytes + payload.size(); }
  /// A copy of the whole frame.
  std::vector<std::byte> bytes() const;
};

/// Writes the header of a frame, without data, bitmap words and READ ranges, and returns the
/// header's size. `out` must have room for kRcHeaderMax bytes.
std::size_t encode(const RcFrame& frame, std::byte* out);
/// Writes one range of a read_request, kRcReadRangeBytes bytes, to `out`.
void encode_range(const RcReadRange& range, std::byte* out);
/// Writes one word of an ack frame's bitmap, kRcWordBytes bytes, to `out`.
void encode_word(std::uint64_t word, std::byte* out);

/// Decodes a frame; its `payload` points into `bytes`. Returns nothing if a field contradicts the
/// kind or the size. A decoded frame may still name operations and memory that do not exist.
std::optional<RcFrame> decode_rc(std::span<const std::byte> bytes);
/// Range `index` of a decoded read_request; `index` must be below `count`.
RcReadRange range_at(const RcFrame& frame, std::size_t index);
/// Word `index` of the bitmap of a decoded ack frame; `index` must be below `count`.
std::uint64_t word_at(const RcFrame& frame, std::size_t index);
/// The error code of a decoded `refused` frame.
Code refusal_code(const RcFrame& frame);

const char* to_string(RcKind kind);
/// The frame as text for logs, such as "write seq 12 ack 7 from 0x... to 0x... operation 3 ...".
std::string to_string(const RcFrame& frame);

}  // namespace tutti::device::rc
