#include "sim/fabric/event_queue.hpp"

#include <algorithm>
#include <utility>

namespace tutti::sim {
namespace {

constexpr unsigned kFirstWidthShift = 13;
constexpr unsigned kWidestShift = 40;
constexpr std::uint64_t kNoBucket = ~std::uint64_t{0};
/// tune() tries to keep the mean number of distinct event times in a bucket between these bounds.
/// With fewer times, scans of the bitmap take long; with more, sorting takes long.
constexpr std::uint64_t kFewPerBucket = 3;
constexpr std::uint64_t kManyPerBucket = 10;
/// To insert an event into the open bucket, at most this many sorted events are shifted. An event
/// that needs more shifts goes to the heap late_.
constexpr std::size_t kLateSteps = 24;
constexpr std::uint64_t kCensusInterval = 1u << 12;
constexpr std::size_t kFirstActive = 64;

// Heaps whose nodes have four children. They have half the levels of a binary heap, and siblings
// share cache lines.
void heap_push(std::vector<Event>& heap, const Event& event) {
  std::size_t at = heap.size();
  heap.push_back(event);
  while (at > 0) {
    const std::size_t parent = (at - 1) / 4;
    if (!(event < heap[parent])) break;
    heap[at] = heap[parent];
    at = parent;
  }
  heap[at] = event;
}

Event heap_pop(std::vector<Event>& heap) {
  const Event top = heap.front();
  const Event last = heap.back();
  heap.pop_back();
  const std::size_t size = heap.size();
  if (size == 0) return top;
  std::size_t at = 0;
  for (;;) {
    const std::size_t first = 4 * at + 1;
    if (first >= size) break;
    std::size_t least = first;
    for (std::size_t child = first + 1; child < std::min(first + 4, size); ++child) {
      if (heap[child] < heap[least]) least = child;
    }
    if (!(heap[least] < last)) break;
    heap[at] = heap[least];
    at = least;
  }
  heap[at] = last;
  return top;
}

}  // namespace

EventQueue::EventQueue()
    : active_(kFirstActive),
      width_shift_(kFirstWidthShift),
      blocks_(1),
      next_dealt_(kNoBucket),
      census_interval_(kCensusInterval) {}

std::uint32_t EventQueue::take_block(std::uint32_t next) {
  std::uint32_t taken = free_block_;
  if (taken != 0) {
    free_block_ = blocks_[taken].next;
  } else {
    taken = static_cast<std::uint32_t>(blocks_.size());
    blocks_.emplace_back();
  }
  blocks_[taken].next = next;
  return taken;
}

void EventQueue::push_late(const Event& event) {
  ++census_.late_pushes;
  if (end_ - next_ > kLateSteps && event < active_[end_ - kLateSteps]) {
    heap_push(late_, event);
    return;
  }
  if (end_ == active_.size()) active_.resize(2 * end_);
  std::size_t at = end_++;
  for (; at > next_ && event < active_[at - 1]; --at) active_[at] = active_[at - 1];
  active_[at] = event;
}

/// Puts an event into the narrowest coarse wheel whose range includes `bucket`.
void EventQueue::push_far(const Event& event, std::uint64_t bucket) {
  std::size_t level = 0;
  std::uint64_t number = bucket >> coarse_shift(0);
  while (number - ((current_ + 1) >> coarse_shift(level)) >= kCoarseBuckets) {
    number = bucket >> coarse_shift(++level);
  }
  if (level >= coarse_.size()) coarse_.resize(level + 1);
  const std::uint64_t slot = number % kCoarseBuckets;
  CoarseBucket& into = coarse_[level].buckets[slot];
  if (into.block == 0 || into.count == kBlockEvents) {
    if (into.block == 0) {
      coarse_[level].occupied[slot / 64] |= std::uint64_t{1} << (slot % 64);
      next_dealt_ = std::min(next_dealt_, number << coarse_shift(level));
    }
    into = {take_block(into.block), 0};
  }
  Event* at = &blocks_[into.block].events[into.count++];
  *at = event;
  __builtin_prefetch(at + 3, 1);  // prefetches the cache line that the next call writes
}

Picoseconds EventQueue::next_time() {
  if (size_ == 0) return kForever;
  prepare();
  return active_[next_].time;
}

/// Puts the first pending event at active_[next_]; returns false if none is pending.
bool EventQueue::prepare() {
  if (late_.empty()) return next_ != end_ || open_next_bucket();
  if (next_ != end_ && active_[next_] < late_.front()) return true;
  const Event first = heap_pop(late_);
  if (next_ == 0) {
    heap_push(late_, active_[0]);
  } else {
    --next_;
  }
  active_[next_] = first;
  return true;
}

bool EventQueue::open_next_bucket() {
  if (size_ == 0) return false;
  if (popped_ - popped_at_census_ >= census_interval_) {
    tune();
    if (!late_.empty() || next_ != end_) return prepare();
  }
  std::uint64_t opened = next_occupied();
  for (; next_dealt_ <= opened; opened = next_occupied()) deal_out();
  census_.skipped += opened - current_ - 1;
  current_ = opened;
  next_ = 1;
  end_ = near_.take(opened, active_, 1);
  ++census_.opened;
  census_.events += end_ - 1;
  sort_active();
  std::uint64_t instants = 1;
  for (std::size_t i = 2; i < end_; ++i) instants += active_[i].time != active_[i - 1].time;
  census_.instants += instants;
  return true;
}

/// The index of the first narrow bucket with events after the open bucket; kNoBucket if there is
/// none.
std::uint64_t EventQueue::next_occupied() const {
  const std::uint64_t away = near_.distance_from(current_ + 1);
  return away == kNoBucket ? kNoBucket : current_ + 1 + away;
}

/// Finds the first non-empty bucket of a coarse wheel and returns the index of the narrow bucket at
/// which it begins; kNoBucket if the wheel is empty.
std::uint64_t EventQueue::next_coarse(std::size_t level) const {
  const std::uint64_t base = (current_ + 1) >> coarse_shift(level);
  const std::uint64_t away = first_set(coarse_[level].occupied, base % kCoarseBuckets);
  return away == kNoBucket ? kNoBucket : (base + away) << coarse_shift(level);
}

/// Moves the events of the coarse bucket that begins at next_dealt_ into wheels with narrower
/// buckets.
void EventQueue::deal_out() {
  census_.skipped += next_dealt_ - 1 - current_;
  current_ = next_dealt_ - 1;
  std::size_t level = 0;
  while (next_coarse(level) != next_dealt_) ++level;
  const std::uint64_t slot = (next_dealt_ >> coarse_shift(level)) % kCoarseBuckets;
  coarse_[level].occupied[slot / 64] &= ~(std::uint64_t{1} << (slot % 64));
  next_dealt_ = kNoBucket;
  empty_coarse_bucket(coarse_[level].buckets[slot], [&](const Event& event) {
    const std::uint64_t bucket = bucket_of(event.time);
    if (bucket - current_ <= EventWheel::kBuckets) {
      near_.push(event, bucket);
    } else {
      push_far(event, bucket);
    }
  });
  for (level = 0; level < coarse_.size(); ++level) {
    next_dealt_ = std::min(next_dealt_, next_coarse(level));
  }
}

/// Empties a coarse bucket: passes its events to `take`, which may push them again, and frees its
/// blocks.
template <typename Take>
void EventQueue::empty_coarse_bucket(CoarseBucket& bucket, const Take& take) {
  const CoarseBucket emptied = std::exchange(bucket, CoarseBucket{});
  std::uint32_t count = emptied.count;
  for (std::uint32_t at = emptied.block; at != 0; count = kBlockEvents) {
    const std::uint32_t next = blocks_[at].next;
    const char* ahead = reinterpret_cast<const char*>(&blocks_[next]);
    for (std::uint32_t i = 0; i < count; ++i) {
      __builtin_prefetch(ahead + sizeof(Event) * i);
      const Event event = blocks_[at].events[i];
      take(event);
    }
    blocks_[at].next = free_block_;
    free_block_ = at;
    at = next;
  }
}

void EventQueue::sort_active() {
  if (end_ > 32) {
    std::sort(active_.begin() + 1, active_.begin() + static_cast<std::ptrdiff_t>(end_));
    return;
  }
  for (std::size_t i = 2; i < end_; ++i) {
    const Event event = active_[i];
    std::size_t at = i;
    for (; at > 1 && event < active_[at - 1]; --at) active_[at] = active_[at - 1];
    active_[at] = event;
  }
}

/// Adapts the width of buckets to the events popped since the last call of tune(). All events of
/// the open bucket must have been popped.
void EventQueue::tune() {
  const Census seen = std::exchange(census_, Census{});
  popped_at_census_ = popped_;
  census_interval_ = std::max<std::uint64_t>(kCensusInterval, size_ / 4);
  const std::uint64_t pushes = seen.events + seen.late_pushes;
  const std::uint64_t crowd = seen.instants / std::max<std::uint64_t>(seen.opened, 1);
  const bool too_far = seen.far_pushes * 16 > pushes;
  const bool too_empty = seen.skipped > seen.opened * 512;
  if (crowd < kFewPerBucket && (too_far || too_empty)) {
    const unsigned steps = seen.skipped > seen.opened * 4096 ? 3 : 1;
    rebuild(std::min(width_shift_ + steps, kWidestShift));
  } else if (crowd > kManyPerBucket && width_shift_ > 0) {
    const auto steps = static_cast<unsigned>(std::bit_width(crowd / kFewPerBucket)) - 1;
    rebuild(width_shift_ - std::min(steps, width_shift_));
  }
}

/// Removes all pending events and inserts them again, into buckets of another width.
void EventQueue::rebuild(unsigned width_shift) {
  if (width_shift == width_shift_) return;
  next_ = 1;
  end_ = 1;
  for (std::uint64_t bucket = 0; bucket < EventWheel::kBuckets; ++bucket) {
    end_ = near_.take(bucket, active_, end_);
  }
  std::vector<Event> pending(active_.begin() + 1,
                             active_.begin() + static_cast<std::ptrdiff_t>(end_));
  end_ = 1;
  for (CoarseWheel& wheel : coarse_) {
    for (CoarseBucket& bucket : wheel.buckets) {
      empty_coarse_bucket(bucket, [&](const Event& event) { pending.push_back(event); });
    }
    wheel.occupied = {};
  }
  next_dealt_ = kNoBucket;
  width_shift_ = width_shift;
  const std::uint64_t present = bucket_of(now_);
  current_ = present == 0 ? 0 : present - 1;
  size_ -= pending.size();
  for (const Event& event : pending) push(event);
  census_ = {};
}

}  // namespace tutti::sim
