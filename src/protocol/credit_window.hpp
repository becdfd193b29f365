// Credits on a lossy network (rule 5, T4): what all senders together have outstanding stays below
// what every receiver has posted.
//
// A chain of senders is one stream of chunks; it is cut into pulses of ceil(window / k), and k
// pulses may be in flight. A rank has consumed a pulse when each of its chunks has come or is known
// to have been sent and lost. That news runs up a binomial tree to the rank that sends pulse p+k,
// which passes the grant to the other senders of that pulse, if any. A stream that fits the window
// needs no credit.
#pragma once

#include <cstdint>
#include <vector>

#include "protocol/chunk_map.hpp"
#include "protocol/codec/message.hpp"
#include "protocol/fetch_ring.hpp"
#include "protocol/sequencer.hpp"

namespace tutti::protocol {

class CreditWindow {
 public:
  /// `window_chunks`: what every receiver has posted, for all chains together.
  CreditWindow(Rank me, std::uint32_t size, std::uint32_t epoch, const ChunkMap& map,
               std::uint32_t chains, std::uint64_t window_chunks, std::uint32_t pulses_in_flight);

  /// Whether any chain's stream is longer than its window.
  bool needed() const { return needed_; }
  /// One past the last PSN of `block_index` that may be sent by now.
  std::uint32_t limit(std::uint32_t block_index) const;
  /// Looks at what has come: reports the pulses that this rank has consumed since.
  void consume(const FetchRing& fetch, Outbox& outbox);
  /// A child's report or the keeper's grant. False: nobody may send me that.
  bool on_credit(Rank from, std::uint64_t argument, Outbox& outbox);
  bool on_grant(std::uint64_t argument);

  std::uint32_t pulse_chunks() const { return pulse_chunks_; }

 private:
  struct Chain {
    Range psns;  ///< of its stream
    std::uint32_t first_block = 0;
    std::uint32_t cursor = 0;    ///< below this everything is consumed here
    std::uint32_t consumed = 0;  ///< pulses that this rank has consumed
    std::uint32_t granted = 0;   ///< pulses that everybody has consumed, as far as known here
    std::uint32_t pulse_count = 0;
    std::vector<std::uint32_t> reports;  ///< a pulse's reports from children, own included
  };

  Range pulse_range(const Chain& chain, std::uint32_t pulse) const;
  /// The rank to which pulse `pulse`'s consumption is reported; kNoRank where nobody needs it.
  Rank grantor(const Chain& chain, std::uint32_t pulse) const;
  std::uint32_t subtree_children(Rank grantor) const;
  void report(std::uint32_t chain_index, std::uint32_t pulse, Outbox& outbox);
  void advance_cursor(Chain& chain, const FetchRing& fetch) const;

  Rank me_;
  std::uint32_t size_;
  std::uint32_t epoch_;
  const ChunkMap* map_;
  std::uint32_t in_flight_;
  std::uint32_t pulse_chunks_ = 1;
  bool needed_ = false;
  std::vector<Chain> chains_;
};

}  // namespace tutti::protocol
