// The pending events of a simulation in one total order, independent of the order of pushes.
//
// A calendar wheel holds the near future in narrow buckets of equal width, which an occupancy
// bitmap finds and which are sorted only when their turn comes. Later events wait unsorted in
// coarse wheels, whose buckets are each as wide as the whole wheel below, and move down when their
// time is near. A million pending events are thus accessed sequentially while the narrow buckets
// fit a core's cache.
//
// An event pushed far back into the open bucket waits in a heap. The bucket width adapts to the
// pending events, which changes the speed but never the order.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/fabric/huge_pages.hpp"
#include "sim/fabric/time.hpp"

namespace tutti::sim {

/// The kind of an event, by which the event loop dispatches. At one instant, lower kinds come
/// first.
enum class EventKind : std::uint8_t {
  fabric_arrival = 0,       ///< Fabric: a packet or train reaches the end of a link (target)
  fabric_leaf_arrival = 1,  ///< Fabric: the same packet reaches many hosts of a leaf at once
  fabric_credit = 2,        ///< Fabric: a blocked port (target: link) may have credits again
  background = 3,           ///< BackgroundTraffic: the next packet of a stream (target)
  traffic = 4,              ///< TrafficRun: a message (target) is processed
  user = 16,                ///< 16 and above: kinds of the caller (device, simulation)
};

/// An event, ordered by (time, key, argument). Two events may share time and key only if they share
/// the argument or the handler does not depend on their order.
struct Event {
  Picoseconds time;
  /// Event_key(): kind, target, and a detail that distinguishes events of one instant.
  std::uint64_t key = 0;
  std::uint64_t argument = 0;  ///< free for the handler

  friend constexpr bool operator<(const Event& a, const Event& b) {
    if (a.time != b.time) return a.time < b.time;
    if (a.key != b.key) return a.key < b.key;
    return a.argument < b.argument;
  }
  friend constexpr bool operator==(const Event&, const Event&) = default;
};
static_assert(sizeof(Event) == 24);

/// Packs kind (8 bits), target (32 bits) and a detail (24 bits).
constexpr std::uint64_t event_key(EventKind kind, std::uint32_t target, std::uint32_t detail = 0) {
  return std::uint64_t{static_cast<std::uint8_t>(kind)} << 56 | std::uint64_t{target} << 24 |
         (detail & 0xff'ffffu);
}
constexpr EventKind kind_of(const Event& event) { return static_cast<EventKind>(event.key >> 56); }
constexpr std::uint32_t target_of(const Event& event) {
  return static_cast<std::uint32_t>(event.key >> 24);
}
constexpr std::uint32_t detail_of(const Event& event) {
  return static_cast<std::uint32_t>(event.key) & 0xff'ffffu;
}

class EventQueue {
 public:
  EventQueue();

  /// Adds an event at `now()` or later.
  void push(const Event& event) {
    ++size_;
    const std::uint64_t bucket = bucket_of(event.time);
    if (bucket <= current_) return push_late(event);
    if (bucket - current_ <= kBuckets) return push_near(event, bucket % kBuckets);
    ++census_.far_pushes;
    push_far(event, bucket);
  }

  /// Takes the first event; false if none is pending.
  bool pop(Event& event) {
    if (next_ == end_ || !late_.empty()) {
      if (!prepare()) return false;
    }
    event = active_[next_++];
    --size_;
    ++popped_;
    now_ = event.time;
    digest_ = (std::rotl(digest_, 23) ^ static_cast<std::uint64_t>(event.time.count) ^
               event.key * 0x9e37'79b9'7f4a'7c15u) *
              0xbf58'476d'1ce4'e5b9u;
    return true;
  }

  /// The time of the first event; kForever if none is pending.
  Picoseconds next_time();
  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  /// The time of the last popped event.
  Picoseconds now() const { return now_; }
  /// A hash of every (time, key) popped, in order: equal runs have equal digests.
  std::uint64_t digest() const { return digest_; }
  std::uint64_t popped() const { return popped_; }

 private:
  static constexpr unsigned kBucketBits = 11;
  static constexpr std::uint64_t kBuckets = 1u << kBucketBits;
  static constexpr unsigned kCoarseBits = 8;
  static constexpr std::uint64_t kCoarseBuckets = 1u << kCoarseBits;
  static constexpr std::uint32_t kChunkEvents = 5;
  static constexpr std::uint32_t kBlockEvents = 42;

  /// Events of one narrow bucket, in two cache lines. Freed chunks are reused first because they
  /// are in the cache.
  struct Chunk {
    Event events[kChunkEvents];
    std::uint32_t count = 0;
    std::uint32_t next = 0;
  };
  static_assert(sizeof(Chunk) == 128);

  /// Events of one coarse bucket, long enough to be prefetched.
  struct Block {
    Event events[kBlockEvents];
    std::uint32_t next = 0;
    std::uint32_t spare[3] = {};
  };
  static_assert(sizeof(Block) == 1024);

  /// A bucket's blocks: the first is being filled, all others are full.
  struct CoarseBucket {
    std::uint32_t block = 0;
    std::uint32_t count = 0;  ///< events in the first block
  };
  struct CoarseWheel {
    std::array<CoarseBucket, kCoarseBuckets> buckets{};
    std::array<std::uint64_t, kCoarseBuckets / 64> occupied{};
  };

  std::uint64_t bucket_of(Picoseconds time) const {
    return static_cast<std::uint64_t>(time.count) >> width_shift_;
  }
  /// A bucket of coarse wheel `level` is 2^coarse_shift(level) narrow buckets wide.
  static constexpr unsigned coarse_shift(std::size_t level) {
    return kBucketBits + kCoarseBits * static_cast<unsigned>(level);
  }
  void push_near(const Event& event, std::uint64_t slot) {
    std::uint32_t head = heads_[slot];
    if (head == 0 || chunks_[head].count == kChunkEvents) {
      head = take_chunk(heads_[slot]);
      heads_[slot] = head;
      occupied_[slot / 64] |= std::uint64_t{1} << (slot % 64);
    }
    Chunk& chunk = chunks_[head];
    chunk.events[chunk.count++] = event;
  }
  void prefetch_chunk(std::uint32_t at) {
    const char* chunk = reinterpret_cast<const char*>(&chunks_[at]);
    __builtin_prefetch(chunk);
    __builtin_prefetch(chunk + 64);
  }
  std::uint32_t take_chunk(std::uint32_t next);
  std::uint32_t take_block(std::uint32_t next);
  void push_late(const Event& event);
  void push_far(const Event& event, std::uint64_t bucket);
  bool prepare();
  bool open_next_bucket();
  std::uint64_t next_occupied() const;
  std::uint64_t next_coarse(std::size_t level) const;
  void deal_out();
  template <typename Take>
  void empty_coarse_bucket(CoarseBucket& bucket, const Take& take);
  void empty_bucket(std::uint64_t slot);
  void sort_active();
  void tune();
  void rebuild(unsigned width_shift);

  std::vector<Event> active_;  ///< the open bucket, sorted: [next_, end_); slot 0 is spare
  std::size_t next_ = 1;
  std::size_t end_ = 1;
  std::vector<Event> late_;           ///< heap of events pushed far back into the open bucket
  std::uint64_t current_ = 0;         ///< number of the open bucket, counted from time 0
  unsigned width_shift_ = 0;          ///< a narrow bucket is 2^width_shift_ picoseconds wide
  std::vector<std::uint32_t> heads_;  ///< first chunk of each narrow bucket; 0: none
  std::array<std::uint64_t, kBuckets / 64> occupied_{};
  std::vector<Chunk, HugePages<Chunk>> chunks_;  ///< index 0 is unused
  std::uint32_t free_chunk_ = 0;
  std::vector<CoarseWheel> coarse_;              ///< from narrow to wide, created on demand
  std::vector<Block, HugePages<Block>> blocks_;  ///< index 0 is unused
  std::uint32_t free_block_ = 0;
  std::uint64_t next_dealt_;  ///< narrow bucket at which the next coarse one begins
  std::size_t size_ = 0;
  Picoseconds now_{};
  std::uint64_t digest_ = 0;
  std::uint64_t popped_ = 0;

  /// Statistics since the last tuning.
  struct Census {
    std::uint64_t opened = 0;  ///< narrow buckets opened
    std::uint64_t events = 0;  ///< events in them
    /// Distinct instants of these events, which narrower buckets could separate.
    std::uint64_t instants = 0;
    std::uint64_t skipped = 0;  ///< empty buckets between them
    std::uint64_t far_pushes = 0;
    std::uint64_t late_pushes = 0;
  };
  Census census_;
  std::uint64_t popped_at_census_ = 0;
  std::uint64_t census_interval_;  ///< pops between two tunings
};

}  // namespace tutti::sim
