// The slow path (K5): missing chunks are asked for at the left neighbour, range by range and block
// by block, and read from it when it says that it has them.
//
// Recovery is per source block, because in an Allgather every rank may have lost something: "answer
// when you are complete" would deadlock. A block's ring ends at its root, which always has it.
//  - A responder that misses a range says "later" (it has not come yet) or "lack" (lost here too,
//    perhaps after "later"), and "ready" when it has it.
//  - "Lack" means shared loss: the requester tells the block's root, which multicasts the range
//    once more; a repeat within the linger time is ignored.
//  - A silent responder is skipped: the next to the left, finally the root, then round again.
// Where the root keeps a copy and nobody else is bound to (FetchFrom::root), the root is asked.
#pragma once

#include <cstdint>
#include <vector>

#include "protocol/chunk_map.hpp"
#include "protocol/codec/message.hpp"
#include "protocol/loss_scanner.hpp"
#include "tutti/units.hpp"

namespace tutti::protocol {

/// Bytes to read from a peer now.
struct ReadOrder {
  Rank from = kNoRank;
  std::uint64_t key = 0;
  std::uint32_t block_index = 0;
  Range psns;
};

/// What the slow path did (reliability of a collective is judged by it).
struct FetchCounters {
  std::uint64_t ranges_asked = 0;
  std::uint64_t chunks_lost = 0;      ///< declared lost at this rank
  std::uint64_t ranges_served = 0;    ///< answered "ready"
  std::uint64_t ranges_deferred = 0;  ///< answered "later" or "lack"
  std::uint64_t retransmit_requests_sent = 0;
  std::uint64_t targets_skipped = 0;  ///< silent or finished neighbours passed over
  std::uint64_t chunks_read = 0;
  std::uint64_t bytes_read = 0;
};

enum class FetchFrom : std::uint8_t { neighbours, root };

class FetchRing {
 public:
  struct Settings {
    Nanoseconds patience{100'000'000};  ///< a responder silent for longer is skipped
    Nanoseconds linger{5'000'000};      ///< a range multicast again is not repeated within this
  };

  FetchRing(Rank me, std::uint32_t size, std::uint32_t epoch, const ChunkMap& map,
            const Settings& settings, FetchFrom from = FetchFrom::neighbours);

  // As requester.
  /// Chunks that will not come by themselves. Those already asked for are left alone.
  void lost(const LostRun& run);
  /// The same of chunks that may not have been sent: what is read of them in the end was lost.
  void enquire(const LostRun& run);
  /// Sends what is due: new requests, and requests to the next target where one fell silent.
  void poll(Instant now, Outbox& outbox);
  /// A responder's answer. False: it names ranges outside the collective.
  bool on_answer(Instant now, Rank from, const Message& message, Outbox& outbox,
                 std::vector<ReadOrder>& reads);
  /// A read has ended; on success its chunks are to be marked by the caller first.
  void on_read_end(const ReadOrder& order, bool success, std::uint64_t bytes);
  /// Nothing that was lost is still missing.
  bool idle() const { return asks_.empty(); }
  /// Whether a chunk is being read: its bytes may be here in part.
  bool reading(std::uint32_t psn) const { return reading_.test(psn); }
  /// Whether a chunk is known to have been sent and lost (so it occupies nobody's staging here).
  bool proven(std::uint32_t psn) const { return proven_.test(psn); }

  // As responder.
  /// PSNs of our own block that have not been multicast yet: asked for, they come "later", by
  /// multicast, rather than twice.
  void withhold(Range psns) { withheld_ = psns; }
  /// A right-hand rank misses ranges. `key`: of this rank's buffer. False: ranges out of bounds.
  bool on_request(Rank from, const Message& message, std::uint64_t key, Outbox& outbox);
  /// Chunks have come: answers what had to wait for them.
  void serve_deferred(std::uint64_t key, Outbox& outbox);
  bool has_deferred() const { return !deferred_.empty(); }

  // As root.
  /// Ranges of our own block that two ranks or more lack: appends what to multicast again.
  bool on_retransmit_request(Instant now, const Message& message, std::vector<Range>& again);

  Instant next_deadline() const;
  const FetchCounters& counters() const { return counters_; }

 private:
  struct Ask {
    std::uint32_t block_index;
    Range psns;
    Rank target;
    Instant heard;  ///< when the target was last asked, or answered
    bool sent = false;
  };
  struct Deferred {
    Rank from;
    std::uint32_t block_index;
    Range psns;
    bool told_lack;  ///< else "later"
  };

  /// Splits ranges by block and checks them; false where one is out of bounds.
  bool split(const Message& message, std::vector<LostRun>& runs) const;
  void ask_for(const LostRun& run, bool enquiry);
  void count_enquired(Range psns);
  Rank root_of(std::uint32_t block_index) const {
    return map_->layout().blocks()[block_index].root;
  }
  Rank first_target(std::uint32_t block_index) const {
    return from_ == FetchFrom::root ? root_of(block_index) : left_of(me_);
  }
  Rank left_of(Rank rank) const { return rank_of((index(rank) + size_ - 1) % size_); }
  Rank next_target(const Ask& ask) const;
  void correct_deferred(Outbox& outbox);
  /// The part at the start of a missing run that is lost here, or that has not come yet.
  Range lost_or_late(Range psns) const;
  void send_retransmit_requests(Rank responder, const std::vector<LostRun>& runs, Outbox& outbox);
  Range first_unavailable(std::uint32_t block_index, Range psns) const;
  bool wanted(const Ask& ask) const;
  void order_reads(Rank from, std::uint64_t key, const LostRun& run, std::vector<ReadOrder>& reads);

  Rank me_;
  std::uint32_t size_;
  std::uint32_t epoch_;
  const ChunkMap* map_;
  Settings settings_;
  FetchFrom from_;
  Bitmap declared_;  ///< by PSN: asked for, on proof or on suspicion
  Bitmap proven_;    ///< by PSN: sent and lost
  Bitmap reading_;   ///< by PSN: a read is under way
  Bitmap enquired_;  ///< by PSN: not counted as lost yet; where `enquires_`
  bool enquires_ = false;
  Bitmap again_;  ///< by PSN: multicast again within the linger time
  Instant again_since_{};
  Range withheld_{};
  std::vector<Ask> asks_;
  std::vector<Deferred> deferred_;
  bool newly_proven_ = false;  ///< since the last poll
  FetchCounters counters_;
};

}  // namespace tutti::protocol
