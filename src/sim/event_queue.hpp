// The future of a simulation: events in one total order that never depends on who pushed first.
//
// A calendar wheel holds the near future: buckets of equal width, found by an occupancy bitmap,
// sorted only when their turn comes. Far events wait in a heap, and so do events pushed into the
// bucket that is being emptied if sorting them in would cost too much. Width and number of buckets
// follow what is pending, which changes how fast events come out but never their order.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/huge_pages.hpp"
#include "sim/time.hpp"

namespace tutti::sim {

/// What an event is for. Whoever runs the loop switches on it; at one instant, lower kinds first.
enum class EventKind : std::uint8_t {
  fabric_arrival = 0,       ///< Fabric: a packet or train reaches the end of a link (target)
  fabric_leaf_arrival = 1,  ///< Fabric: the same packet reaches many hosts of a leaf at once
  fabric_credit = 2,        ///< Fabric: a blocked port (target: link) may have credits again
  background = 3,           ///< BackgroundTraffic: the next packet of a stream (target)
  traffic = 4,              ///< TrafficRun: a message (target) has been taken up
  user = 16,                ///< 16 and above: the caller's (device, world)
};

/// A plain event, ordered by (time, key, argument). Two events may only share time and key if they
/// also share the argument, or if their order does not matter to the handler.
struct Event {
  Picoseconds time;
  std::uint64_t key = 0;       ///< event_key(): kind, target, and what tells apart at one instant
  std::uint64_t argument = 0;  ///< the handler's own

  friend constexpr bool operator<(const Event& a, const Event& b) {
    if (a.time != b.time) return a.time < b.time;
    if (a.key != b.key) return a.key < b.key;
    return a.argument < b.argument;
  }
  friend constexpr bool operator==(const Event&, const Event&) = default;
};
static_assert(sizeof(Event) == 24);

/// Packs kind (8 bits), target (32 bits) and 24 bits that tell events of one instant apart.
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

  /// Adds an event, at `now()` at the earliest.
  void push(const Event& event) {
    ++size_;
    const std::uint64_t bucket = bucket_of(event.time);
    if (bucket <= current_) return push_late(event);
    if (bucket - current_ < bucket_count_) return push_near(event, bucket & (bucket_count_ - 1));
    push_far(event);
  }

  /// Takes the first event; false where none is pending.
  bool pop(Event& event) {
    if (next_ == active_.size() || !late_.empty()) {
      if (!prepare()) return false;
    }
    if (next_ % 4 == 0) {
      prefetch_ = chunks_[prefetch_].next;
      prefetch_chunk();
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

  /// The time of the first event; kForever where none is pending.
  Picoseconds next_time();
  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  /// The time of the event popped last.
  Picoseconds now() const { return now_; }
  /// A hash of all (time, key) popped so far, in order: two equal runs have equal digests.
  std::uint64_t digest() const { return digest_; }
  std::uint64_t popped() const { return popped_; }

 private:
  /// Events of one bucket, five to two cache lines. Freed chunks are used again first: they are in
  /// the cache.
  struct Chunk {
    Event events[5];
    std::uint32_t count = 0;
    std::uint32_t next = 0;
  };
  static_assert(sizeof(Chunk) == 128);

  std::uint64_t bucket_of(Picoseconds time) const {
    return static_cast<std::uint64_t>(time.count) >> width_shift_;
  }
  void push_near(const Event& event, std::uint64_t slot) {
    std::uint32_t head = heads_[slot];
    if (head == 0 || chunks_[head].count == 5) {
      head = take_chunk(heads_[slot]);
      heads_[slot] = head;
      occupied_[slot / 64] |= std::uint64_t{1} << (slot % 64);
    }
    Chunk& chunk = chunks_[head];
    chunk.events[chunk.count++] = event;
  }
  /// Walks ahead through the bucket that is opened next, so that its chunks are in the cache then.
  void prefetch_chunk() {
    const char* chunk = reinterpret_cast<const char*>(&chunks_[prefetch_]);
    __builtin_prefetch(chunk);
    __builtin_prefetch(chunk + 64);
  }
  std::uint32_t take_chunk(std::uint32_t next);
  void push_late(const Event& event);
  void push_far(const Event& event);
  bool prepare();
  bool open_next_bucket();
  std::uint64_t next_occupied() const;
  void empty_bucket(std::uint64_t slot);
  void sort_active();
  void tune();
  void change_shape(int direction, unsigned steps);
  void rebuild(unsigned width_shift, std::uint64_t bucket_count);

  std::vector<Event> active_;  ///< the open bucket, sorted, taken from next_ on; slot 0 is spare
  std::size_t next_ = 1;
  std::vector<Event> late_;    ///< heap: pushed into the open bucket, far from its end
  std::uint64_t current_ = 0;  ///< number of the open bucket, counted from time 0
  unsigned width_shift_ = 0;   ///< a bucket is 2^width_shift_ picoseconds wide
  std::uint64_t bucket_count_ = 0;
  std::vector<std::uint32_t, HugePages<std::uint32_t>> heads_;  ///< a bucket's first chunk, 0: none
  std::vector<std::uint64_t> occupied_;
  std::vector<Chunk, HugePages<Chunk>> chunks_;  ///< 0 is never used
  std::uint32_t free_chunk_ = 0;
  std::uint32_t prefetch_ = 0;
  std::vector<Event> far_;  ///< heap: beyond the wheel
  std::size_t size_ = 0;
  Picoseconds now_{};
  std::uint64_t digest_ = 0;
  std::uint64_t popped_ = 0;

  /// What tuning looks at, since it looked last.
  struct Census {
    std::uint64_t opened = 0;   ///< buckets
    std::uint64_t events = 0;   ///< in them
    std::uint64_t skipped = 0;  ///< empty buckets between them
    std::uint64_t far_pushes = 0;
    std::uint64_t late_pushes = 0;
  };
  Census census_;
  std::uint64_t popped_at_census_ = 0;
  std::uint64_t census_interval_ = 0;  ///< pops between two looks
  unsigned floor_shift_ = 0;           ///< narrower than this was too narrow lately
  unsigned floor_holds_ = 0;
};

}  // namespace tutti::sim
