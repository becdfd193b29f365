// Credits on a lossy network. All senders together never have more chunks outstanding than each
// receiver has posted receives ([Xu25] 1.3).
//
// A rank has consumed a credit batch when each of its chunks has arrived or is proven lost. Reports
// of a consumed batch travel up a binomial tree to the grantor, which passes the grant to the other
// senders whose chunks the new credit permits.
#pragma once

#include <cstdint>
#include <vector>

#include "protocol/chunk_map.hpp"
#include "protocol/codec/message.hpp"
#include "protocol/credits/credit_batches.hpp"
#include "protocol/fetch_ring.hpp"

namespace tutti::protocol {

class CreditWindow {
 public:
  /// `window_chunks` is the number of chunks for which every receiver has posted receives, for all
  /// chains together.
  CreditWindow(Rank me, std::uint32_t size, std::uint32_t epoch, const ChunkMap& map,
               std::uint32_t chains, std::uint64_t window_chunks, std::uint32_t batches_in_flight);

  /// True if the stream of some chain is longer than its share of the window, so that the senders
  /// need credit.
  bool needed() const { return batches_.needed(); }
  /// The PSN below which the root of block `block_index` may send with its present credit.
  std::uint32_t limit(std::uint32_t block_index) const;
  /// Counts the batches that this rank has consumed. Sends a report of a batch to this rank's
  /// parent, by `outbox`, once all ranks below this rank in the tree of reports have consumed the
  /// batch, too.
  void consume(const FetchRing& fetch, Outbox& outbox);
  /// `on_credit` handles the report of a child, `on_grant` the grant of a grantor. Both return
  /// false if the message is invalid.
  bool on_credit(Rank from, std::uint64_t argument, Outbox& outbox);
  bool on_grant(Rank from, std::uint64_t argument);

  std::uint32_t batch_chunks() const { return batches_.batch_chunks(); }

 private:
  struct Chain {
    std::uint32_t cursor = 0;    ///< PSN below which this rank has consumed every chunk
    std::uint32_t consumed = 0;  ///< number of batches that this rank has consumed
    /// Number of batches that, as far as this rank knows, every rank has consumed.
    std::uint32_t granted = 0;
    /// By batch: number of reports received, this rank's own included.
    std::vector<std::uint32_t> reports;
  };

  std::uint32_t subtree_children(Rank grantor) const;
  void report(std::uint32_t chain_index, std::uint32_t batch, Outbox& outbox);
  void advance_cursor(std::uint32_t chain_index, const FetchRing& fetch);

  Rank me_;
  std::uint32_t size_;
  std::uint32_t epoch_;
  const ChunkMap* map_;
  CreditBatches batches_;
  std::vector<Chain> chains_;  ///< by chain of `batches_`
};

}  // namespace tutti::protocol
