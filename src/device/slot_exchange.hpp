// The slot exchange: a short collective in which each rank publishes its block once in a slot and
// reads the blocks that it needs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/error.hpp"
#include "tutti/status.hpp"
#include "tutti/units.hpp"

namespace tutti::device {

/// The parameters of one exchange. They differ between ranks only if the ranks called different
/// collectives.
struct ExchangeHeader {
  enum class Flow : std::uint8_t {
    all_to_all,   ///< each rank publishes a block and reads the blocks of all other ranks
    root_to_all,  ///< the root publishes a block, and all others read it
    all_to_root,  ///< all ranks but the root publish a block, and the root reads them
  };
  Flow flow = Flow::all_to_all;
  std::uint8_t purpose = 0;  ///< number by which the caller identifies the kind of collective
  Rank root = kNoRank;
  std::uint64_t block_bytes = 0;

  bool operator==(const ExchangeHeader&) const = default;

  /// Returns true if `rank` publishes a block in this exchange.
  bool has_block_of(Rank rank) const {
    return flow == Flow::all_to_all || (flow == Flow::root_to_all) == (rank == root);
  }
  /// Replaces `sources` by the ranks whose blocks `reader` reads.
  void list_sources(Rank reader, std::uint32_t size, std::vector<Rank>& sources) const {
    sources.clear();
    if (flow == Flow::all_to_all || (flow == Flow::all_to_root && reader == root)) {
      for (std::uint32_t r = 0; r < size; ++r) {
        if (rank_of(r) != reader) sources.push_back(rank_of(r));
      }
    } else if (!has_block_of(reader)) {
      sources.push_back(root);
    }
  }
};

/// One rank's entry in a slot exchange: the block that the rank published, and the parameters of
/// its call.
struct SlotEntry {
  Rank from = kNoRank;
  ExchangeHeader header;             ///< parameters as `from` published them
  std::span<const std::byte> block;  ///< published block, valid until `leave`
};

/// The slot exchanges of a communicator as one rank sees them. All ranks run the same exchanges in
/// the same order, one at a time. Used by one thread at a time.
class SlotExchange {
 public:
  /// Number of slots of each rank, and therefore the number of exchanges by which one rank may be
  /// ahead of another.
  static constexpr std::uint32_t kSlots = 8;

  SlotExchange(Rank me, std::uint32_t size) : me_(me), size_(size) {
    missing_.reserve(size);
    entries_.reserve(size);
  }
  SlotExchange(const SlotExchange&) = delete;
  SlotExchange& operator=(const SlotExchange&) = delete;
  virtual ~SlotExchange() = default;

  /// Size in bytes of the largest block that a slot can hold.
  virtual std::size_t max_block_bytes() const = 0;
  /// Enters the next exchange; refuses a block that is longer than a slot. If this rank publishes a
  /// block, `own` is copied now or by a later `collect`, so it must not change until `leave`.
  Status enter(const ExchangeHeader& header, std::span<const std::byte> own) {
    if (own.size() > max_block_bytes()) {
      return failure(
          Code::invalid_argument,
          "a slot of {} bytes cannot hold a block of {} bytes: use an algorithm without slots",
          max_block_bytes(), own.size());
    }
    header_ = header;
    own_block_ = own;
    ++number_;
    header.list_sources(me_, size_, missing_);
    slot_busy_ = header.has_block_of(me_);
    publish_if_free();
    return {};
  }
  /// Returns the entries that have arrived since the last call; they are valid until `leave`.
  std::span<const SlotEntry> collect() {
    publish_if_free();
    progress();
    entries_.clear();
    std::erase_if(missing_, [this](Rank rank) {
      const std::optional<SlotEntry> entry = entry_of(rank);
      if (entry) entries_.push_back(*entry);
      return entry.has_value();
    });
    return entries_;
  }
  /// True once this rank's block is published and every block that this rank reads has arrived.
  virtual bool complete() const { return !slot_busy_ && missing_.empty(); }
  /// True while this rank's block waits for its slot, because another rank has not acknowledged the
  /// earlier block in that slot. On a device that loses no entries, no event reports that the slot
  /// is free, so callers must poll.
  bool slot_busy() const { return slot_busy_; }
  /// The ranks whose entries this rank still needs.
  std::span<const Rank> missing() const { return missing_; }
  /// Leaves the present exchange, complete or not, and acknowledges it: this rank needs no entries
  /// of it any more, so their slots may be reused.
  void leave() {
    missing_.clear();
    slot_busy_ = false;
    acknowledge();
  }

  // The following functions serve the recovery of entries on devices that may lose entries
  // (`loses`). A 32-bit argument contains the lower 32 bits of an exchange's number.
  virtual bool loses() const { return false; }
  /// Lower 32 bits of the number of the present exchange or, between exchanges, of the last one.
  std::uint32_t exchange() const { return static_cast<std::uint32_t>(number_); }
  /// Lower 32 bits of the number of the last exchange that this rank has acknowledged.
  virtual std::uint32_t acked() const { return 0; }
  /// Sends this rank's entry of an exchange again. Returns false if this rank's slots do not yet,
  /// or no longer, contain the entry.
  virtual bool resend(std::uint32_t missed) {
    (void)missed;
    return false;
  }
  /// This rank's entry of an exchange as the bytes that `restore` reads at another rank; empty if
  /// this rank's slots do not yet, or no longer, contain the entry.
  virtual std::span<const std::byte> entry(std::uint32_t missed) const {
    (void)missed;
    return {};
  }
  /// Stores another rank's entry of the present exchange that arrived in a message. Returns false
  /// if the bytes are not a whole entry, or if this rank has the entry already.
  virtual bool restore(Rank from, std::span<const std::byte> bytes) {
    (void)from;
    (void)bytes;
    return false;
  }
  /// Records that `rank` has acknowledged exchange `last` and all earlier ones.
  virtual void on_acked(Rank rank, std::uint32_t last) {
    (void)rank;
    (void)last;
  }
  /// The ranks that have not acknowledged the last exchange in which this rank published a block.
  virtual std::vector<Rank> unacked() const { return {}; }
  /// The ranks that are `unacked` and, while the slot is busy, those for which it waits. On a
  /// device that loses no entries, only the latter.
  virtual std::vector<Rank> awaited_acks() const = 0;

 protected:
  Rank me() const { return me_; }
  std::uint32_t size() const { return size_; }
  /// Number of the present exchange or, between exchanges, of the last one. The first exchange has
  /// the number 1; before it, the result is 0.
  std::uint64_t number() const { return number_; }
  const ExchangeHeader& header() const { return header_; }
  std::span<const std::byte> own_block() const { return own_block_; }

  /// True if every rank has acknowledged the last earlier exchange that used the slot of the
  /// present exchange.
  virtual bool slot_is_free() = 0;
  /// Writes this rank's block to the slot of the present exchange.
  virtual void publish() = 0;
  /// Tells the other ranks that this rank needs no entries of the present exchange any more.
  virtual void acknowledge() = 0;
  /// Sends the unsent chunks of this rank's entry, and receives entries of other ranks.
  virtual void progress() {}
  /// The entry of `rank` in the present exchange; nothing if it has not arrived yet.
  virtual std::optional<SlotEntry> entry_of(Rank rank) = 0;

 private:
  void publish_if_free() {
    if (!slot_busy_ || !slot_is_free()) return;
    slot_busy_ = false;
    publish();
  }

  Rank me_;
  std::uint32_t size_;
  std::uint64_t number_ = 0;
  ExchangeHeader header_;
  std::span<const std::byte> own_block_;
  bool slot_busy_ = false;
  std::vector<Rank> missing_;
  std::vector<SlotEntry> entries_;
};

}  // namespace tutti::device
