// The fetch ring ([Khalilov24] 3.3): a rank asks its left neighbour for missing chunk ranges, and
// READs the ranges when the neighbour says that it has them. The ring of a block ends at its root,
// which has the block.
//
// A rank answers for each block separately. In an Allgather every rank may have lost something, so
// a ring in which ranks answered only once they had all blocks would deadlock.
//
// A responder that misses a range answers "pending" (not arrived yet) or "lost" (lost here, too),
// and "ready" as soon as it has the range. After "lost" the requester asks the block's root to
// multicast the range again; the root ignores repeated requests within the linger time.
//
// A silent responder is skipped in favour of its left neighbour, and so on up to the root. With
// FetchFrom::root the root is asked directly, because only the root keeps a copy.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <tuple>
#include <vector>

#include "protocol/chunk_map.hpp"
#include "protocol/codec/message.hpp"
#include "protocol/loss_scanner.hpp"
#include "tutti/units.hpp"

namespace tutti::protocol {

/// Tells the caller which chunks it must READ from which peer.
struct ReadOrder {
  Rank from = kNoRank;
  std::uint64_t key = 0;
  std::uint32_t block_index = 0;
  Range psns;
};

/// Number of recovery events of each kind at this rank.
struct FetchCounters {
  std::uint64_t ranges_asked = 0;
  std::uint64_t chunks_lost = 0;    ///< chunks declared lost at this rank
  std::uint64_t ranges_served = 0;  ///< requested ranges that this rank answered with "ready"
  /// Requested ranges that this rank answered with "pending" or "lost".
  std::uint64_t ranges_deferred = 0;
  std::uint64_t retransmit_requests_sent = 0;
  /// Number of times that a silent or finished neighbour was skipped.
  std::uint64_t targets_skipped = 0;
  std::uint64_t chunks_read = 0;
  std::uint64_t bytes_read = 0;
};

enum class FetchFrom : std::uint8_t { neighbours, root };

class FetchRing {
 public:
  struct Settings {
    Nanoseconds patience{100'000'000};  ///< silence after which a responder is skipped
    /// After a range was multicast again, further requests for it are ignored for at most this
    /// time.
    Nanoseconds linger{5'000'000};
  };

  FetchRing(Rank me, std::uint32_t size, std::uint32_t epoch, const ChunkMap& map,
            const Settings& settings, FetchFrom from = FetchFrom::neighbours);

  // Functions for the requester, the rank that misses chunks.

  /// Requests chunks that will not arrive by multicast, except those already requested.
  void lost(const LostRun& run);
  /// Requests chunks that may not have been sent yet. Such a chunk is counted as lost only when a
  /// READ has brought it, because until then it may merely be late.
  void enquire(const LostRun& run);
  /// Sends new requests. If a rank that was asked is silent, sends the request to the next rank
  /// instead.
  void poll(Instant now, Outbox& outbox);
  /// Handles the answer of the rank that was asked. False if the answer names ranges outside the
  /// collective.
  bool on_answer(Instant now, Rank from, const Message& message, Outbox& outbox,
                 std::vector<ReadOrder>& reads);
  /// Handles the end of a READ. The caller must already have marked the chunks of a successful
  /// READ.
  void on_read_end(const ReadOrder& order, bool success, std::uint64_t bytes);
  /// The rank that is asked first for a block. If all ranks make the same call, this rank ends the
  /// collective only once the asking rank has every chunk: the left neighbour awaits the handshake
  /// message, and a root retains its block.
  Rank first_target(std::uint32_t block_index) const {
    return from_ == FetchFrom::root ? root_of(block_index) : left_of(me_);
  }
  /// The first target that has ended the collective too early; kNoRank: none.
  Rank unserved_by() const { return unserved_by_; }
  /// True if no requested chunk is still missing.
  bool idle() const { return asks_.empty(); }
  /// True while a READ that covers this chunk is under way and may have written part of it.
  bool reading(std::uint32_t psn) const { return reading_.test(psn); }
  /// True if the chunk is proven to be sent and lost. It then needs no posted receive of this rank
  /// any more.
  bool proven(std::uint32_t psn) const { return proven_.test(psn); }

  /// True from the request of a chunk by `enquire` until a READ brings the chunk.
  bool enquired(std::uint32_t psn) const { return enquires_ && enquired_.test(psn); }

  // Functions for the responder, the rank that is asked.

  /// Sets the part of this rank's own block that has not been multicast yet. Requests for chunks in
  /// this part are answered "pending", because sending a chunk twice would waste bandwidth.
  void withhold(Range psns) { withheld_ = psns; }
  /// Returns the memory key by which a peer READs a block from this rank's buffer.
  using KeyOf = std::function<std::uint64_t(std::uint32_t block_index)>;
  /// Handles a request of rank `from`. False if a range is out of bounds.
  bool on_request(Rank from, const Message& message, const KeyOf& key_of, Outbox& outbox);
  /// Answers the deferred requests whose chunks have arrived meanwhile.
  void serve_deferred(const KeyOf& key_of, Outbox& outbox);
  bool has_deferred() const { return !deferred_.empty(); }

  // Functions for the root, which multicasts lost ranges again.

  /// Handles a request to multicast ranges of this rank's block again. Appends to `again` the
  /// ranges that the caller must send. False if the request is invalid.
  bool on_retransmit_request(Instant now, const Message& message, std::vector<Range>& again);

  Instant next_deadline() const;
  const FetchCounters& counters() const { return counters_; }

 private:
  struct Ask {
    std::uint32_t block_index;
    Range psns;
    Rank target;
    Instant heard;  ///< time of the last request to `target`, or of its last answer
    bool sent = false;
    /// True: the chunks may not have been sent yet; only with FetchFrom::neighbours.
    bool enquiry = false;
    /// Number of unsuccessful rounds; a round asks every rank up to the root.
    std::uint32_t rounds = 0;
  };
  struct Deferred {
    Rank from;
    std::uint32_t block_index;
    Range psns;
    bool answered_lost;  ///< true: this rank has answered "lost"; false: it has answered "pending"
    friend bool operator<(const Deferred& a, const Deferred& b) {
      return std::tie(a.from, a.psns.first) < std::tie(b.from, b.psns.first);
    }
  };

  /// Splits the ranges of a message by block; false if a range is out of bounds.
  bool split(const Message& message, std::vector<LostRun>& runs) const;
  void ask_for(const LostRun& run, bool enquiry);
  void count_enquired(Range psns);
  Rank root_of(std::uint32_t block_index) const {
    return map_->layout().blocks()[block_index].root;
  }
  Rank left_of(Rank rank) const { return rank_of((index(rank) + size_ - 1) % size_); }
  Rank next_target(const Ask& ask) const;
  Nanoseconds patience_of(const Ask& ask) const;
  void correct_deferred(Outbox& outbox);
  void forget_deferred(Rank from, Range psns);
  /// Returns the longest prefix of `psns` whose chunks are either all lost or all pending.
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
  Bitmap declared_;  ///< by PSN: true if requested, because proven or suspected lost
  Bitmap proven_;    ///< by PSN: true if proven to be sent and lost
  Bitmap reading_;   ///< by PSN: true while a READ is under way
  /// By PSN: true from the request by `enquire` until a READ brings the chunk; used only if
  /// `enquires_` is true.
  Bitmap enquired_;
  bool enquires_ = false;
  Bitmap again_;  ///< the PSNs that this rank multicast again less than the linger time ago
  Instant again_since_{};
  Range withheld_{};
  std::vector<Ask> asks_;
  std::set<Deferred> deferred_;  ///< the ranges of one rank never overlap
  Rank unserved_by_ = kNoRank;
  bool newly_proven_ = false;  ///< true: a loss was proven since the last call of `poll`
  FetchCounters counters_;
};

}  // namespace tutti::protocol
