// The credit batches of a collective. The chunks of one chain of senders are one stream, which is
// cut into batches; a limited number of batches may be in flight. A stream that fits into the
// window needs no credit.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "protocol/block_layout.hpp"

namespace tutti::protocol {

class CreditBatches {
 public:
  /// `window_chunks` is the number of chunks for which every receiver has posted receives, for all
  /// chains together. `layout` must outlive this object.
  CreditBatches(const BlockLayout& layout, std::uint32_t chains, std::uint64_t window_chunks,
                std::uint32_t in_flight);

  /// The largest number of chains. Each chain needs credit for at least one chunk, so more chains
  /// than the window has chunks would overfill the receive queues.
  static std::uint32_t most_chains(std::uint32_t senders, std::uint64_t window_chunks) {
    return static_cast<std::uint32_t>(
        std::min<std::uint64_t>(senders, std::max<std::uint64_t>(window_chunks, 1)));
  }

  /// True if the stream of some chain is longer than its share of the window, so that the senders
  /// need credit.
  bool needed() const { return needed_; }
  std::uint32_t batch_chunks() const { return batch_chunks_; }
  /// Number of batches of a chain that may be in flight.
  std::uint32_t in_flight() const { return in_flight_; }
  std::uint32_t chains() const { return static_cast<std::uint32_t>(streams_.size()); }
  /// PSNs of a chain's stream.
  Range psns(std::uint32_t chain) const { return streams_[chain].psns; }
  /// Number of batches of a chain.
  std::uint32_t count(std::uint32_t chain) const { return streams_[chain].count; }
  /// PSNs of a batch.
  Range range(std::uint32_t chain, std::uint32_t batch) const;
  /// The rank that collects the reports of `batch` and then grants credit: the sender of the first
  /// chunk that this credit permits. kNoRank if no sender waits for this credit.
  Rank grantor(std::uint32_t chain, std::uint32_t batch) const;
  /// The blocks to whose senders the grantor of `batch` passes the grant.
  Range granted_blocks(std::uint32_t chain, std::uint32_t batch) const;
  /// Number of messages among `ranks` ranks: the reports of consumed batches and the grants.
  std::uint64_t messages(std::uint32_t ranks) const;

 private:
  struct Stream {
    Range psns;
    std::uint32_t count = 0;
  };

  const BlockLayout* layout_;
  std::uint32_t in_flight_;
  std::uint32_t batch_chunks_ = 1;
  bool needed_ = false;
  std::vector<Stream> streams_;
};

}  // namespace tutti::protocol
