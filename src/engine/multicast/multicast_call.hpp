// State that the sender, the receiver and the recovery of one multicast collective share: the call,
// its plan, and the protocol machines that several of them use.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/core/communicator_context.hpp"
#include "engine/multicast/multicast_trace.hpp"
#include "protocol/block_layout.hpp"
#include "protocol/chunk_map.hpp"
#include "protocol/cutoff.hpp"
#include "protocol/fetch_ring.hpp"
#include "protocol/send_schedule.hpp"
#include "protocol/sequencer.hpp"

namespace tutti::engine {

/// The state of reception apart from the chunk map: the blocks whose first or last chunk has
/// arrived, and the times of arrivals.
struct MulticastArrivals {
  std::vector<bool> first_chunk_seen;  ///< by block: true if a chunk has arrived
  std::uint32_t ends_seen = 0;         ///< number of blocks whose last chunk has arrived
  std::uint32_t ends_expected = 0;
  Instant since{};  ///< start of the data phase
  Instant last{};   ///< time of the latest arrival of a chunk
};

/// The block index that stands for "no block".
inline constexpr std::uint32_t kNoBlock = 0xffff'ffffu;

/// Shortest wait before a full or draining send queue is polled again.
inline constexpr Nanoseconds kQueueRetryMin{20'000};

struct MulticastCall {
  std::span<std::byte> buffer;
  std::span<const std::byte> own;
  bool gather = false;
  bool own_offsets = false;      ///< true: ranks may place the blocks at different offsets
  std::uint64_t data_bytes = 0;  ///< payload bytes of all blocks together
  bool retains_copy = false;     ///< true: the root retains a copy, and there is no handshake
  /// True: the device has Capability::every_chunk_arrives, so recovery and handshake are left out.
  bool lossless = false;
  CommunicatorContext* context = nullptr;
  std::uint32_t epoch = 0;
  Priority priority = Priority::normal;
  protocol::SendSchedule::Plan plan;
  std::uint32_t chains = 1;

  protocol::BlockLayout layout;
  std::unique_ptr<protocol::ChunkMap> map;
  std::unique_ptr<protocol::Sequencer> sequencer;
  std::unique_ptr<protocol::Cutoff> cutoff;
  /// Recovery by fetch ring; null if there is no data to move.
  std::unique_ptr<protocol::FetchRing> fetch;
  protocol::Outbox outbox;
  MulticastTrace trace;
  MulticastArrivals arrivals;

  std::uint32_t own_block = kNoBlock;  ///< block that this rank sends; kNoBlock: none
  bool ready = false;
  bool dirty = false;  ///< true: something has changed since the protocol machines last ran

  bool received_all() const { return map && map->complete(); }
  /// True if chunks are missing and this rank may have to request them.
  bool may_miss_chunks() const { return ready && !lossless && !received_all(); }
  bool has_workers() const { return context->receiver().has_workers(); }
};

}  // namespace tutti::engine
