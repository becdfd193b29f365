// The pending events of a simulation in one total order, independent of the order of pushes.
//
// An event wheel stores the events of the near future in narrow buckets. A bucket is sorted only
// when it is opened, which means that its events are popped next. Later events wait unsorted in
// coarse wheels. Each bucket of a coarse wheel is as wide as the whole next narrower wheel. When
// the time of its events is near, they move to this narrower wheel.
//
// The width of buckets adapts to the pending events, which changes the speed but never the order.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/fabric/event.hpp"
#include "sim/fabric/event_wheel.hpp"
#include "sim/fabric/huge_pages.hpp"
#include "sim/fabric/time.hpp"

namespace tutti::sim {

class EventQueue {
 public:
  EventQueue();

  /// Adds an event. Its time must be `now()` or later.
  void push(const Event& event) {
    ++size_;
    const std::uint64_t bucket = bucket_of(event.time);
    if (bucket <= current_) return push_late(event);
    if (bucket - current_ <= EventWheel::kBuckets) return near_.push(event, bucket);
    ++census_.far_pushes;
    push_far(event, bucket);
  }

  /// Removes the first event and stores it in `event`; returns false if none is pending.
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
  /// A hash of the times and keys of all popped events, in order. Equal simulations have equal
  /// digests.
  std::uint64_t digest() const { return digest_; }
  std::uint64_t popped() const { return popped_; }

 private:
  static constexpr unsigned kCoarseBits = 8;
  static constexpr std::uint64_t kCoarseBuckets = 1u << kCoarseBits;
  static constexpr std::uint32_t kBlockEvents = 42;

  /// A block of events of one coarse bucket. It is large enough that the next block can be
  /// prefetched while this block is read.
  struct Block {
    Event events[kBlockEvents];
    std::uint32_t next = 0;
    std::uint32_t spare[3] = {};
  };
  static_assert(sizeof(Block) == 1024);

  /// The blocks of one coarse bucket: the first block is being filled, all others are full.
  struct CoarseBucket {
    std::uint32_t block = 0;
    std::uint32_t count = 0;  ///< number of events in the first block
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
    return EventWheel::kBucketBits + kCoarseBits * static_cast<unsigned>(level);
  }
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
  void sort_active();
  void tune();
  void rebuild(unsigned width_shift);

  /// Sorted events of the open bucket, from next_ to end_ - 1. Index 0 stays free, so that one
  /// event fits in front of the first.
  std::vector<Event> active_;
  std::size_t next_ = 1;
  std::size_t end_ = 1;
  /// Heap of those events whose insertion into active_ would shift too many other events.
  std::vector<Event> late_;
  std::uint64_t current_ = 0;  ///< index of the open bucket, counted from time 0
  unsigned width_shift_ = 0;   ///< width of a narrow bucket: 2^width_shift_ picoseconds
  EventWheel near_;
  std::vector<CoarseWheel> coarse_;  ///< coarse wheels from narrow to wide, created on demand
  std::vector<Block, HugePages<Block>> blocks_;  ///< blocks of events; index 0 is unused
  std::uint32_t free_block_ = 0;
  /// Index of the narrow bucket at which the next non-empty coarse bucket begins.
  std::uint64_t next_dealt_;
  std::size_t size_ = 0;
  Picoseconds now_{};
  std::uint64_t digest_ = 0;
  std::uint64_t popped_ = 0;

  /// Statistics of buckets and pushes since the last call of tune().
  struct Census {
    std::uint64_t opened = 0;  ///< number of narrow buckets that were opened
    std::uint64_t events = 0;  ///< number of events in the opened buckets
    /// Number of distinct event times in the opened buckets. tune() uses this number as the measure
    /// of how full the buckets are, because narrower buckets cannot separate events of equal time.
    std::uint64_t instants = 0;
    std::uint64_t skipped = 0;  ///< number of empty narrow buckets between the opened ones
    std::uint64_t far_pushes = 0;
    std::uint64_t late_pushes = 0;
  };
  Census census_;
  std::uint64_t popped_at_census_ = 0;
  std::uint64_t census_interval_;  ///< number of pops between two calls of tune()
};

}  // namespace tutti::sim
