// Finds lost chunks while other chunks still arrive. A stream consists of the chunks of one root
// through one subgroup. A missing chunk is lost if it lies below the highest PSN that its stream
// had reached one tick ago, so the time between two ticks is the reordering allowance.
#pragma once

#include <cstdint>
#include <vector>

#include "protocol/chunk_map.hpp"

namespace tutti::protocol {

/// A run of missing chunks of one block.
struct LostRun {
  std::uint32_t block_index = 0;
  Range psns;
  /// True: the missing chunks were sent, because a chunk that was sent after them has arrived.
  /// False: the missing chunks may not have been sent yet.
  bool proven = true;
};

class LossScanner {
 public:
  explicit LossScanner(const ChunkMap& map);

  /// Records that the block was sent completely. The caller knows this once a later rank of the
  /// sender's chain has begun to send.
  void ended(std::uint32_t block_index) { ended_[block_index] = true; }
  /// Runs one tick: appends to `lost` the chunks that this tick finds lost. Each chunk is reported
  /// once.
  void tick(std::vector<LostRun>& lost);

 private:
  struct Stream {
    std::uint32_t scanned = 0;  ///< missing chunks below this PSN have been reported
    std::uint32_t seen = 0;     ///< PSN that the stream had reached at the last tick
  };

  void scan(std::uint32_t block_index, std::uint32_t subgroup, Range psns,
            std::vector<LostRun>& lost) const;

  const ChunkMap* map_;
  std::vector<Stream> streams_;
  std::vector<bool> ended_;
};

}  // namespace tutti::protocol
