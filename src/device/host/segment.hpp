// The shared memory of one rank: what its peers on this host write to it and read from it. It has
// no name in any file system and ends with the last process that maps it, however that ends.
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

/// Whom a rank that sleeps wants to be woken by.
enum class Sleep : std::uint32_t {
  awake = 0,
  for_work = 1,              ///< not by acknowledgements alone: nobody here waits for one
  for_acknowledgements = 2,  ///< by anything
};

/// How many ranks share how many subgroups; with the constants, the layout of every segment.
struct SegmentShape {
  std::uint32_t ranks = 0;
  std::uint32_t subgroups = 0;

  /// Of the ring from one rank to one other.
  std::size_t frame_capacity_bytes() const;
  ChunkRingShape chunk_ring() const;
  std::size_t slots_offset() const;
  std::size_t bytes() const;
};

struct SegmentHead {
  std::uint64_t magic = 0;
  std::uint64_t token = 0;  ///< random: says that it is this one
  alignas(kCacheLineBytes) std::atomic<std::uint32_t> sleep;
  std::atomic<std::uint32_t>
      with_inline_engine;  ///< 1: sleeps, and waits for who has yet to come there
  alignas(kCacheLineBytes) std::atomic<std::uint32_t> wants_room;  ///< the chunk rings' writer
};

/// Where a segment is found; what an endpoint's address carries.
struct SegmentAddress {
  std::uint64_t token = 0;
  std::int32_t process = 0;
  std::int32_t memory = -1;  ///< descriptors of that process
  std::int32_t bell = -1;

  std::vector<std::byte> encode() const;
  static Result<SegmentAddress> decode(std::span<const std::byte> bytes);
};

/// A mapping of one rank's segment, and its bell: a pipe, so that its owner can wait for it beside
/// other descriptors.
class Segment {
 public:
  Segment() = default;
  Segment(Segment&& other) noexcept { *this = std::move(other); }
  Segment& operator=(Segment&& other) noexcept;
  ~Segment();

  /// A segment of this process.
  static Result<Segment> create(const SegmentShape& shape);
  /// Another rank's. The failure says what of /proc it was and how to do without.
  static Result<Segment> open(const SegmentAddress& address, const SegmentShape& shape);

  SegmentAddress address() const;
  SegmentHead& head() const { return *reinterpret_cast<SegmentHead*>(memory_.data()); }
  /// The ring that `from` writes and the segment's owner reads.
  std::span<std::byte> frames_from(Rank from) const;
  ChunkRing chunks(std::uint32_t subgroup) const;
  SlotShare slot_exchange() const;

  /// Wakes the owner where it sleeps for this; returns whether it did. After a publishing store.
  bool wake(bool acknowledgement_only) const;
  /// The same for what was put on the board: nobody is woken who is not waiting there.
  bool wake_inline() const;
  /// Owner only: the bell rang, and rings again.
  void silence_bell() const;
  int bell_descriptor() const { return bell_out_.get(); }

 private:
  void ring() const;

  SegmentShape shape_;
  std::span<std::byte> memory_;
  Descriptor file_;
  Descriptor bell_out_;  ///< owner: what it waits for
  Descriptor bell_in_;   ///< what rings it
};

}  // namespace tutti::device::host
