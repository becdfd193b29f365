// Places, marks and counts the chunks of a multicast collective, and measures how fast they arrive.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/multicast/arrival_meter.hpp"
#include "engine/multicast/multicast_call.hpp"
#include "engine/multicast/multicast_recovery.hpp"
#include "engine/receive/receive_view.hpp"

namespace tutti::engine {

class MulticastReceiver {
 public:
  MulticastReceiver(MulticastCall& call, MulticastRecovery& recovery)
      : call_(call), recovery_(recovery) {}

  /// Prepares the reception; called once the layout is known.
  void start();

  void on_chunk(Instant now, const device::ReceivedChunk& chunk,
                device::MulticastQueuePair& queue_pair);
  device::Placement landing(const device::MessageHead& chunk, bool begins);
  void on_unexpected_chunk(Instant now, std::uint32_t psn, Rank source,
                           std::span<const std::byte> payload);
  void on_arrivals(Instant now, const std::vector<Arrival>& arrivals);
  /// Records that chunks of a block were marked in the chunk map.
  void on_marked(Instant now, std::uint32_t block_index);
  /// Fills in this rank's rate vote. `queue_filled`: a send queue of this host was full;
  /// `began_together`: a ready barrier preceded the data.
  void cast_vote(Instant now, bool queue_filled, bool began_together);

 private:
  /// The block of a chunk, and the chunk's position in the buffer.
  struct ChunkRef {
    std::uint32_t block = 0;
    std::uint64_t offset_bytes = 0;
  };

  CommunicatorContext& context() const { return *call_.context; }
  /// Finds the block and the position of a chunk; nothing if the header does not fit the
  /// collective.
  std::optional<ChunkRef> locate(std::uint32_t psn, Rank source, std::size_t bytes);
  std::byte* writable(const ChunkRef& chunk, std::uint32_t psn, bool counted);
  void on_malformed(Rank source);
  void on_misfit(const device::ReceivedChunk& chunk, device::MulticastQueuePair& queue_pair);
  void begin_block(std::uint32_t block_index);
  void end_blocks_before(std::uint32_t block_index);
  void on_block_end(Instant now);

  MulticastCall& call_;
  MulticastRecovery& recovery_;
  std::unique_ptr<ArrivalMeter> meter_;
  /// Index of the block of the previous chunk. This block is tried first for the next chunk,
  /// because most chunks arrive in order.
  std::uint32_t block_hint_ = 0;
  /// With receive workers: indexes of the blocks whose last chunk has not arrived.
  std::vector<std::uint32_t> open_blocks_;
};

}  // namespace tutti::engine
