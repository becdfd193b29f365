// The messages between protocol machines of different ranks, sent over reliable connections.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/bits.hpp"
#include "tutti/units.hpp"

namespace tutti::protocol {

enum class MessageKind : std::uint8_t {
  barrier = 1,  ///< ready barrier; argument: round and rate vote
  activate,     ///< activation: the receiver is the next sender of its chain and may begin
  /// Requests the chunk ranges that the sender misses. The argument is 1 if the sender does not
  /// know whether the ranges were multicast already, otherwise 0.
  fetch_request,
  /// Answer to `fetch_request`: chunk ranges that may be READ now. The argument is the key of the
  /// sender's buffer.
  fetch_ready,
  /// Answer to `fetch_request`: chunk ranges that have not arrived at the sender yet. Once they
  /// arrive, the sender sends `fetch_ready`.
  fetch_pending,
  /// Answer to `fetch_request`: chunk ranges that the sender has lost, too. Once it has them, it
  /// sends `fetch_ready`.
  fetch_lost,
  /// Answer to `fetch_request`: the sender has ended the collective and serves no READs.
  fetch_expired,
  retransmit_request,  ///< asks a block's root to multicast lost ranges again
  final,               ///< the sender has every chunk of the collective
  /// Report of a credit batch that all ranks of the sender's subtree have consumed. The upper half
  /// of the argument is the chain, the lower half is the batch.
  credit,
  /// Credit: every rank has consumed a credit batch. The upper half of the argument is the chain,
  /// the lower half is the batch.
  grant,
  /// Failure notice. The epoch determines the content of the argument:
  /// - kEither: the two halves are job ranks, one of which is at fault.
  /// - 0: the lower half is the lost rank. The upper half is 0 if the lost rank is silent;
  ///   otherwise it is 1 plus the job rank that is at fault.
  /// - kAlone, kGaveUp, kNoneAtFault, or the length of packets that do not reach the lost rank: the
  ///   lower half is the lost rank, the upper half is the rank that found the failure.
  failed,
  window,  ///< from an aggregator; argument: key of the receiver's part of the aggregator window
  /// Credit from an aggregator. The argument is the number of segments that the receiver may write
  /// in total during the call.
  credit_batch,
  /// Refusal by an aggregator, which ends the collective. The upper half of the argument is the
  /// reason, the lower half is the rank at fault.
  refused,
  leave,  ///< the sender starts no further collective
  /// Delivery ACK: the sender has every block that the receiver multicast up to this epoch.
  delivered,
  /// Slot NAK: the sender misses the receiver's entry of the slot exchange with this epoch. With
  /// argument 0 the receiver multicasts the entry again. With argument 1 << 32 | e the receiver
  /// sends the entry over the reliable connection, as data of the collective with epoch e.
  slot_nack,
  slot_ack_request,  ///< asks which slot exchange the receiver has finished last
  slot_ack,          ///< slot ACK: the epoch is the last slot exchange that the sender has finished
  /// The sender closes its communicator and needs nothing more. The epoch is the last slot exchange
  /// that the sender has finished. The argument is the epoch of the first collective that the
  /// sender has not begun.
  closing,
  last_kind = closing,
};

/// A message may have at most this many ranges, so that the device can copy the message when it is
/// posted.
inline constexpr std::size_t kMaxRanges = 28;

/// Epoch of a failure notice if the rank that found the failure gets no answer from any rank, and
/// so may itself be cut off.
inline constexpr std::uint32_t kAlone = UINT32_MAX;
/// Epoch of the failure notice of a rank that has given up and names itself.
inline constexpr std::uint32_t kGaveUp = UINT32_MAX - 1;
/// Epoch of a failure notice that names two ranks, one of which is at fault.
inline constexpr std::uint32_t kEither = UINT32_MAX - 2;
/// Epoch of the failure notice of a rank that has given up because of a failure of which no rank is
/// known to be at fault, such as the loss of an aggregator.
inline constexpr std::uint32_t kNoneAtFault = UINT32_MAX - 3;

struct Message {
  MessageKind kind = MessageKind::barrier;
  std::uint32_t epoch = 0;
  std::uint64_t argument = 0;
  std::uint32_t range_count = 0;
  std::array<Range, kMaxRanges> ranges{};

  std::span<const Range> range_list() const { return {ranges.data(), range_count}; }
  /// Appends a range; false if the message is full.
  bool add(Range range) {
    if (range_count == kMaxRanges) return false;
    ranges[range_count++] = range;
    return true;
  }
};

/// Size of the largest encoded message.
inline constexpr std::size_t kMaxMessageBytes = 1 + 1 + 2 + 4 + 8 + kMaxRanges * 8;

/// Writes a message to `out`, which must have room for kMaxMessageBytes, and returns the encoded
/// length.
std::size_t encode(const Message& message, std::byte* out);
/// Decodes a message; nothing unless the bytes are exactly one message.
std::optional<Message> decode(std::span<const std::byte> bytes);
const char* to_string(MessageKind kind);

/// The messages that a protocol machine wants to send. The engine sends them and then empties the
/// outbox.
class Outbox {
 public:
  struct Item {
    Rank to = kNoRank;
    Message message;
  };

  void send(Rank to, MessageKind kind, std::uint32_t epoch, std::uint64_t argument = 0) {
    Item& item = next();
    item.to = to;
    item.message.kind = kind;
    item.message.epoch = epoch;
    item.message.argument = argument;
    item.message.range_count = 0;
  }
  void send(Rank to, const Message& message) {
    Item& item = next();
    item.to = to;
    item.message = message;
  }
  std::span<const Item> items() const { return {items_.data(), used_}; }
  bool empty() const { return used_ == 0; }
  void clear() { used_ = 0; }

 private:
  // Stored messages are reused, not freed, so that an outbox allocates nothing once it has reached
  // its largest size.
  Item& next() {
    if (used_ == items_.size()) items_.emplace_back();
    return items_[used_++];
  }

  std::vector<Item> items_;
  std::size_t used_ = 0;
};

}  // namespace tutti::protocol
