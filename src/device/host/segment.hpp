// The shared memory segment of one rank, which its peers on this host write and read. It has no
// name in any file system and disappears with the last process that maps it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "device/host/shared_ring.hpp"
#include "device/host/shared_slots.hpp"
#include "device/posix/descriptor.hpp"
#include "tutti/status.hpp"
#include "tutti/units.hpp"

namespace tutti::device::host {

/// The events that wake a sleeping rank.
enum class Sleep : std::uint32_t {
  awake = 0,
  for_work = 1,              ///< all but ACKs alone, for which nothing here waits
  for_acknowledgements = 2,  ///< every event
};

/// Numbers of ranks and subgroups; together with the constants, the layout of every segment.
struct SegmentShape {
  std::uint32_t ranks = 0;
  std::uint32_t subgroups = 0;

  /// Capacity of the ring from one rank to another.
  std::size_t frame_capacity_bytes() const;
  ChunkRingShape chunk_ring() const;
  std::size_t slots_offset() const;
  std::size_t bytes() const;
};

struct SegmentHead {
  std::uint64_t magic = 0;
  std::uint64_t token = 0;  ///< random value that identifies this segment
  alignas(kCacheLineBytes) std::atomic<std::uint32_t> sleep;
  /// 1: the rank sleeps and waits for entries of a slot exchange.
  std::atomic<std::uint32_t> with_inline_engine;
  alignas(
      kCacheLineBytes) std::atomic<std::uint32_t> wants_room;  ///< set by the chunk rings' writer
};

/// The location of a segment, carried in an endpoint's address.
struct SegmentAddress {
  std::uint64_t token = 0;
  std::int32_t process = 0;
  std::int32_t memory = -1;  ///< descriptor in that process, as is `bell`
  std::int32_t bell = -1;

  std::vector<std::byte> encode() const;
  static Result<SegmentAddress> decode(std::span<const std::byte> bytes);
};

/// A mapping of one rank's segment, with its bell: a pipe that the owner can wait on together with
/// other descriptors.
class Segment {
 public:
  Segment() = default;
  Segment(Segment&& other) noexcept { *this = std::move(other); }
  Segment& operator=(Segment&& other) noexcept;
  ~Segment();

  /// Creates the segment of this rank.
  static Result<Segment> create(const SegmentShape& shape);
  /// Maps another rank's segment. The error names the /proc entry and the alternative.
  static Result<Segment> open(const SegmentAddress& address, const SegmentShape& shape);

  SegmentAddress address() const;
  SegmentHead& head() const { return *reinterpret_cast<SegmentHead*>(memory_.data()); }
  /// The ring that `from` writes and the segment's owner reads.
  std::span<std::byte> frames_from(Rank from) const;
  ChunkRing chunks(std::uint32_t subgroup) const;
  SlotShare slot_exchange() const;

  /// Wakes the owner if it sleeps for such an event; returns true if it did. Call after publishing.
  bool wake(bool acknowledgement_only) const;
  /// Wakes the owner if it waits for slot exchange entries; returns true if it did.
  bool wake_inline() const;
  /// Owner only: empties the bell's pipe, so that it can ring again.
  void silence_bell() const;
  int bell_descriptor() const { return bell_out_.get(); }

 private:
  void ring() const;

  SegmentShape shape_;
  std::span<std::byte> memory_;
  Descriptor file_;
  Descriptor bell_out_;  ///< read end, of the owner
  Descriptor bell_in_;   ///< write end
};

}  // namespace tutti::device::host
