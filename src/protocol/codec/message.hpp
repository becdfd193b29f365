// What the protocol machines say to other ranks: small messages over the reliable connections.
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
  barrier = 1,         ///< argument: round (K3)
  activate,            ///< the chain's next sender may begin (K7)
  fetch_request,       ///< ranges that the sender misses (K5)
  fetch_ready,         ///< ranges that may be read now; argument: key, offset: of psn 0's region
  fetch_pending,       ///< ranges that have not come yet; ready follows
  fetch_lost,          ///< ranges that are lost here too; ready follows
  fetch_expired,       ///< the collective is over here; ask another
  retransmit_request,  ///< to a block's root: these ranges are lost at two ranks or more
  final,               ///< the sender has everything (K6)
  credit,              ///< argument: chain << 32 | pulse; the sender's subtree has consumed it
  grant,               ///< argument: chain << 32 | pulse; everybody has consumed it
  failed,     ///< argument: rank that is lost; text-free, the receiver words it. In the upper
              ///< half 1 + a rank of the whole job where the cause lies outside, else 0
  window,     ///< argument: key of the receiver's part of the sender's window (T4)
  pulse,      ///< argument: segments that the receiver may have written in all (T4)
  refused,    ///< argument: reason << 32 | rank at fault; the sender ends the collective
  leave,      ///< the sender calls no more
  have,       ///< the sender has what was multicast to it up to this collective
  slot_nack,  ///< epoch: a meeting at the board, of which the receiver's entry is missing
  slot_ack_request,  ///< the receiver is to say which meetings it has left
  left,              ///< epoch: the last meeting that the sender has left; argument 1: it goes
  last_kind = left,
};

/// How many ranges one message carries at most: the message stays short enough to be copied by the
/// device when it is posted.
inline constexpr std::size_t kMaxRanges = 28;

struct Message {
  MessageKind kind = MessageKind::barrier;
  std::uint32_t epoch = 0;
  std::uint64_t argument = 0;
  std::uint32_t range_count = 0;
  std::array<Range, kMaxRanges> ranges{};

  std::span<const Range> range_list() const { return {ranges.data(), range_count}; }
  /// Appends a range; false where the message is full.
  bool add(Range range) {
    if (range_count == kMaxRanges) return false;
    ranges[range_count++] = range;
    return true;
  }
};

/// Largest encoded message.
inline constexpr std::size_t kMaxMessageBytes = 1 + 1 + 2 + 4 + 8 + kMaxRanges * 8;

/// Writes a message to `out` (kMaxMessageBytes) and returns its length.
std::size_t encode(const Message& message, std::byte* out);
/// Reads a message; nothing where the bytes are not exactly one.
std::optional<Message> decode(std::span<const std::byte> bytes);
const char* to_string(MessageKind kind);

/// Where a machine leaves what it wants sent. The engine empties it.
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
  // Items keep their storage from call to call: nothing is allocated in the steady state.
  Item& next() {
    if (used_ == items_.size()) items_.emplace_back();
    return items_[used_++];
  }

  std::vector<Item> items_;
  std::size_t used_ = 0;
};

}  // namespace tutti::protocol
