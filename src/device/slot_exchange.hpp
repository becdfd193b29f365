// A board: memory in which all ranks of a communicator see what each has put there. A short
// collective is one meeting at it: everybody writes once, and reads what it needs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "tutti/units.hpp"

namespace tutti::device {

/// What a meeting is for. Every rank says the same, or they called different collectives.
struct ExchangeHeader {
  enum class Flow : std::uint8_t {
    all_to_all,   ///< everybody puts a block there and reads all others'
    root_to_all,  ///< the root puts its block there, the others read it
    all_to_root,  ///< all but the root put theirs there, and it reads them
  };
  Flow flow = Flow::all_to_all;
  std::uint8_t purpose = 0;  ///< the caller's number of what it is for
  Rank root = kNoRank;
  std::uint64_t block_bytes = 0;

  bool operator==(const ExchangeHeader&) const = default;

  /// Whether a rank puts a block there.
  bool has_block_of(Rank rank) const {
    return flow == Flow::all_to_all || (flow == Flow::root_to_all) == (rank == root);
  }
  /// Lists, anew, whose blocks one of `size` ranks reads.
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

/// What a rank has put there.
struct SlotEntry {
  Rank from = kNoRank;
  ExchangeHeader meeting;            ///< as `from` sees it
  std::span<const std::byte> block;  ///< valid until `leave`
};

/// One rank's side of a board. Meetings follow one another in an order that is the same at all
/// ranks; a rank is in one at a time. Used by one thread at a time.
class SlotExchange {
 public:
  /// Meetings that a rank may be ahead of others, whose entries stay as long.
  static constexpr std::uint32_t kPlaces = 8;

  SlotExchange(Rank me, std::uint32_t size) : me_(me), size_(size) {
    missing_.reserve(size);
    entries_.reserve(size);
  }
  SlotExchange(const SlotExchange&) = delete;
  SlotExchange& operator=(const SlotExchange&) = delete;
  virtual ~SlotExchange() = default;

  /// The longest block.
  virtual std::size_t max_block_bytes() const = 0;
  /// Enters the next meeting, with this rank's block where it puts one there, which is copied, now
  /// or by `collect`, and the caller's until `leave`.
  void enter(const ExchangeHeader& meeting, std::span<const std::byte> own) {
    what_ = meeting;
    own_block_ = own;
    ++number_;
    meeting.list_sources(me_, size_, missing_);
    slot_busy_ = meeting.has_block_of(me_);
    put_if_free();
  }
  /// The entries that came since the last call, valid until `leave`.
  std::span<const SlotEntry> collect() {
    put_if_free();
    exchange();
    entries_.clear();
    std::erase_if(missing_, [this](Rank rank) {
      const std::optional<SlotEntry> entry = entry_of(rank);
      if (entry) entries_.push_back(*entry);
      return entry.has_value();
    });
    return entries_;
  }
  /// This rank's block is there, and all that it reads has come.
  virtual bool complete() const { return !slot_busy_ && missing_.empty(); }
  /// Whether this rank's block is still kept out by ranks that have yet to read an earlier one:
  /// nobody tells when that ends.
  bool slot_busy() const { return slot_busy_; }
  /// Whom this rank waits for.
  std::span<const Rank> missing() const { return missing_; }
  /// Everything collected was used: its place may be written anew.
  virtual void leave() = 0;

  // Where entries may get lost on the way; elsewhere nobody calls these. Meetings are named by
  // their number's lower half.
  virtual bool loses() const { return false; }
  /// The meeting that this rank is in, or was in last.
  std::uint32_t meeting() const { return static_cast<std::uint32_t>(number_); }
  /// The last meeting that it has left.
  virtual std::uint32_t left() const { return 0; }
  /// Somebody misses this rank's entry of a meeting. False: there is none (yet).
  virtual bool resend(std::uint32_t missed) {
    (void)missed;
    return false;
  }
  /// `rank` has left a meeting, and all before.
  virtual void on_left(Rank rank, std::uint32_t last) {
    (void)rank;
    (void)last;
  }
  /// Who is not known to have left the last meeting for which this rank has put a block there.
  virtual std::vector<Rank> behind() const { return {}; }

 protected:
  Rank me() const { return me_; }
  std::uint32_t size() const { return size_; }
  /// Of the meeting that this rank is in, or was in last, from 1 on.
  std::uint64_t number() const { return number_; }
  const ExchangeHeader& what() const { return what_; }
  std::span<const std::byte> own_block() const { return own_block_; }

  /// Whether everybody has left the meeting whose place this one's would take.
  virtual bool place_is_free() = 0;
  /// Puts this rank's block there.
  virtual void put() = 0;
  /// Sends what is left to send, and receives.
  virtual void exchange() {}
  /// A rank's entry of this meeting; nothing: it has not come yet.
  virtual std::optional<SlotEntry> entry_of(Rank rank) = 0;

 private:
  void put_if_free() {
    if (!slot_busy_ || !place_is_free()) return;
    slot_busy_ = false;
    put();
  }

  Rank me_;
  std::uint32_t size_;
  std::uint64_t number_ = 0;
  ExchangeHeader what_;
  std::span<const std::byte> own_block_;
  bool slot_busy_ = false;
  std::vector<Rank> missing_;
  std::vector<SlotEntry> entries_;
};

}  // namespace tutti::device
