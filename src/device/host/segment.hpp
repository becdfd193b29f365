// The shared memory segment of one rank, which its peers on this host write and read. The segment
// has no name in any file system and disappears with the last process that maps it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "device/host/shared_regions.hpp"
#include "device/host/shared_ring.hpp"
#include "device/host/shared_slots.hpp"
#include "device/posix/descriptor.hpp"
#include "tutti/status.hpp"
#include "tutti/units.hpp"

namespace tutti::device::host {

/// The state of a rank: awake, or asleep until certain events.
enum class Sleep : std::uint32_t {
  awake = 0,
  for_work = 1,              ///< asleep; woken by every event except frames with only an ACK
  for_acknowledgements = 2,  ///< asleep; woken by every event, ACKs included
};

/// How many ranks and subgroups a segment serves. Segments with equal counts have the same layout,
/// because all other sizes are constants.
struct SegmentShape {
  std::uint32_t ranks = 0;
  std::uint32_t subgroups = 0;

  /// Capacity in bytes of the frame ring from one rank to another.
  std::size_t frame_capacity_bytes() const;
  ChunkRingShape chunk_ring() const;
  std::size_t slots_offset() const;
  std::size_t regions_offset() const;
  std::size_t bytes() const;
};

struct SegmentHead {
  std::uint64_t magic = 0;
  std::uint64_t token = 0;          ///< random value that identifies this segment
  std::uint64_t bell = 0;           ///< inode of the pipe that wakes the owner
  std::uint64_t token_address = 0;  ///< address of `token` in the owner's address space
  alignas(kCacheLineBytes) std::atomic<std::uint32_t> sleep;
  /// 1 while the rank sleeps and waits for entries of a slot exchange.
  std::atomic<std::uint32_t> with_inline_engine;
  /// 1 while the writer of the chunk rings waits for room.
  alignas(kCacheLineBytes) std::atomic<std::uint32_t> wants_room;
};

/// The location of a segment, carried in an endpoint's address.
struct SegmentAddress {
  std::uint64_t token = 0;
  std::int32_t process = 0;
  std::int32_t memory = -1;  ///< the owner's descriptor of the memory file
  std::int32_t bell = -1;    ///< the owner's descriptor of the bell's write end

  std::vector<std::byte> encode() const;
  static Result<SegmentAddress> decode(std::span<const std::byte> bytes);
};

/// A mapping of one rank's shared segment, and the bell of that rank: a pipe through which other
/// ranks wake that rank. The owner of the segment can wait on the read end of the pipe together
/// with other descriptors.
class Segment {
 public:
  Segment() = default;
  Segment(Segment&& other) noexcept { *this = std::move(other); }
  Segment& operator=(Segment&& other) noexcept;
  ~Segment();

  /// Creates the shared memory of this rank.
  static Result<Segment> create(const SegmentShape& shape);
  /// Maps another rank's segment, through the entry of its process in /proc.
  static Result<Segment> open(const SegmentAddress& address, const SegmentShape& shape);

  SegmentAddress address() const;
  SegmentHead& head() const { return *reinterpret_cast<SegmentHead*>(memory_.data()); }
  /// The ring that rank `from` writes and the owner of the segment reads.
  std::span<std::byte> frames_from(Rank from) const;
  ChunkRing chunks(std::uint32_t subgroup) const;
  SlotShare slot_exchange() const;
  SharedRegions regions() const;

  /// True if the system lets this process read the memory of the segment's owner.
  bool readable() const { return readable_; }
  /// Copies memory of the owner's process that begins at `address`. Returns false if the system
  /// refuses, or if another process has the owner's process id now; the contents of `to` are then
  /// undefined.
  bool read_owner(std::uint64_t address, std::span<std::byte> to) const;

  /// Wakes the owner if it is asleep and waits for this kind of event; returns true if the owner
  /// was woken. Must be called after the data of the event is published. `acknowledgement_only`:
  /// the event is a frame that contains only an ACK.
  bool wake(bool acknowledgement_only) const;
  /// Wakes the owner if it waits for slot exchange entries; returns true if the owner was woken.
  bool wake_inline() const;
  /// Empties the bell's pipe, so that the bell can ring again. Only the owner may call this.
  void silence_bell() const;
  int bell_descriptor() const { return bell_out_.get(); }

 private:
  void ring() const;

  SegmentShape shape_;
  std::span<std::byte> memory_;
  std::uint64_t token_ = 0;
  std::int32_t process_ = 0;  ///< process id of the owner
  bool readable_ = false;
  Descriptor file_;
  Descriptor bell_out_;  ///< read end of the bell's pipe, which only the owner has
  Descriptor bell_in_;   ///< write end of the bell's pipe
};

}  // namespace tutti::device::host
