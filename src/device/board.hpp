// A board: memory in which all ranks of a communicator see what each has put there. A short
// collective is one meeting at it: everybody writes once, and reads what it needs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tutti/units.hpp"

namespace tutti::device {

/// What a meeting is for. Every rank says the same, or they called different collectives.
struct BoardMeeting {
  enum class Flow : std::uint8_t {
    all_to_all,   ///< everybody puts a block there and reads all others'
    root_to_all,  ///< the root puts its block there, the others read it
    all_to_root,  ///< all but the root put theirs there, and it reads them
  };
  Flow flow = Flow::all_to_all;
  std::uint8_t purpose = 0;  ///< the caller's number of the collective
  Rank root = kNoRank;
  std::uint64_t block_bytes = 0;

  bool operator==(const BoardMeeting&) const = default;

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
struct BoardEntry {
  Rank from = kNoRank;
  BoardMeeting meeting;              ///< as `from` sees it
  std::span<const std::byte> block;  ///< valid until `leave`
};

/// One rank's side of a board. Meetings follow one another in an order that is the same at all
/// ranks; a rank is in one at a time. Used by one thread at a time.
class Board {
 public:
  virtual ~Board() = default;

  /// The longest block.
  virtual std::size_t max_block_bytes() const = 0;
  /// Enters the next meeting, with this rank's block where it puts one there, which is copied, now
  /// or by `collect`, and the caller's until `leave`.
  virtual void enter(const BoardMeeting& meeting, std::span<const std::byte> own) = 0;
  /// The entries that came since the last call, valid until `leave`.
  virtual std::span<const BoardEntry> collect() = 0;
  /// This rank's block is there, and all that it reads has come.
  virtual bool complete() const = 0;
  /// Whether this rank's block is still kept out by ranks that have yet to read an earlier one:
  /// nobody tells when that ends.
  virtual bool kept_out() const = 0;
  /// Whom this rank waits for.
  virtual std::span<const Rank> missing() const = 0;
  /// Everything collected was used: its place may be written anew.
  virtual void leave() = 0;

  // Where entries may get lost on the way; elsewhere nobody calls these. Meetings are named by
  // their number's lower half.
  virtual bool loses() const { return false; }
  /// The meeting that this rank is in, or was in last.
  virtual std::uint32_t meeting() const { return 0; }
  /// The last meeting that it has left.
  virtual std::uint32_t left() const { return 0; }
  /// Somebody misses this rank's entry of a meeting. False: there is none (yet).
  virtual bool put_again(std::uint32_t meeting) {
    (void)meeting;
    return false;
  }
  /// `rank` has left a meeting, and all before.
  virtual void on_left(Rank rank, std::uint32_t meeting) {
    (void)rank;
    (void)meeting;
  }
  /// Who is not known to have left the last meeting for which this rank has put a block there.
  virtual std::vector<Rank> behind() const { return {}; }
};

}  // namespace tutti::device
