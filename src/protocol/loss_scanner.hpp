// Finds lost chunks while others still arrive. A stream is the chunks of one root through one
// subgroup. A chunk below the highest PSN that its stream had reached one tick ago, and still
// missing, is lost: the tick is the reordering allowance.
#pragma once

#include <cstdint>
#include <vector>

#include "protocol/chunk_map.hpp"

namespace tutti::protocol {

/// A run of missing chunks of one block.
struct LostRun {
  std::uint32_t block_index = 0;
  Range psns;
  /// A chunk sent later has arrived, so these were sent. False: only suspected.
  bool proven = true;
};

class LossScanner {
 public:
  explicit LossScanner(const ChunkMap& map);

  /// The whole block has been sent: a later sender of its chain has begun.
  void ended(std::uint32_t block_index) { ended_[block_index] = true; }
  /// One tick: appends the runs found lost, each once.
  void tick(std::vector<LostRun>& lost);

 private:
  struct Stream {
    std::uint32_t scanned = 0;  ///< missing chunks below this have been reported
    std::uint32_t seen = 0;     ///< horizon at the last tick
  };

  void scan(std::uint32_t block_index, std::uint32_t subgroup, Range psns,
            std::vector<LostRun>& lost) const;

  const ChunkMap* map_;
  std::vector<Stream> streams_;
  std::vector<bool> ended_;
};

}  // namespace tutti::protocol
