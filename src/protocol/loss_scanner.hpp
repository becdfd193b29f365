// Finding lost chunks while others still flow: what lies below the highest PSN that a stream had
// reached one tick ago, and still has not come, is lost rather than reordered.
//
// A stream is what one source sends to one subgroup. The tick is the reordering that is forgiven.
#pragma once

#include <cstdint>
#include <vector>

#include "protocol/chunk_map.hpp"

namespace tutti::protocol {

/// A run of missing chunks of one block.
struct LostRun {
  std::uint32_t block_index = 0;
  Range psns;
  /// Something that was sent later has come: these chunks were sent. False: a mere suspicion.
  bool proven = true;
};

class LossScanner {
 public:
  explicit LossScanner(const ChunkMap& map);

  /// Everything of this block has been sent (a later sender of its chain has begun).
  void ended(std::uint32_t block_index) { ended_[block_index] = true; }
  /// One tick: appends the runs that are lost by now, each reported once.
  void tick(std::vector<LostRun>& lost);

 private:
  struct Stream {
    std::uint32_t scanned = 0;  ///< below this all missing chunks have been reported
    std::uint32_t seen = 0;     ///< horizon at the last tick
  };

  void scan(std::uint32_t block_index, std::uint32_t subgroup, Range psns,
            std::vector<LostRun>& lost) const;

  const ChunkMap* map_;
  std::vector<Stream> streams_;
  std::vector<bool> ended_;
};

}  // namespace tutti::protocol
