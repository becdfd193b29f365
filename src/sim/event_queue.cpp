#include "sim/event_queue.hpp"

#include <algorithm>

namespace tutti::sim {
namespace {

constexpr std::uint64_t kFirstBuckets = 1u << 12;
constexpr std::uint64_t kMostBuckets = 1u << 15;
constexpr unsigned kFirstWidthShift = 13;
constexpr unsigned kWidestShift = 40;
constexpr std::uint64_t kNoBucket = ~std::uint64_t{0};
/// Events that a bucket should hold: fewer waste bitmap scans, more waste sorting.
constexpr std::uint64_t kFewPerBucket = 3;
constexpr std::uint64_t kManyPerBucket = 10;
/// How far back an event is sorted into the open bucket before it goes to the heap instead.
constexpr std::size_t kLateSteps = 24;
constexpr std::uint64_t kCensusInterval = 1u << 12;
/// For how many looks a width that was widened for the sake of far events is not narrowed again.
constexpr unsigned kFloorHolds = 64;

// Heaps with four children a node: half the levels of a binary one, and siblings share cache lines.
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
    : active_(1),
      width_shift_(kFirstWidthShift),
      bucket_count_(kFirstBuckets),
      heads_(kFirstBuckets),
      occupied_(kFirstBuckets / 64),
      chunks_(1),
      census_interval_(kCensusInterval) {}

std::uint32_t EventQueue::take_chunk(std::uint32_t next) {
  std::uint32_t taken = free_chunk_;
  if (taken != 0) {
    free_chunk_ = chunks_[taken].next;
  } else {
    taken = static_cast<std::uint32_t>(chunks_.size());
    chunks_.emplace_back();
  }
  chunks_[taken].count = 0;
  chunks_[taken].next = next;
  return taken;
}

void EventQueue::push_late(const Event& event) {
  ++census_.late_pushes;
  const std::size_t size = active_.size();
  if (size - next_ > kLateSteps && event < active_[size - kLateSteps]) {
    heap_push(late_, event);
    return;
  }
  active_.push_back(event);
  std::size_t at = size;
  for (; at > next_ && event < active_[at - 1]; --at) active_[at] = active_[at - 1];
  active_[at] = event;
}

void EventQueue::push_far(const Event& event) {
  ++census_.far_pushes;
  heap_push(far_, event);
}

Picoseconds EventQueue::next_time() {
  if (size_ == 0) return kForever;
  prepare();
  return active_[next_].time;
}

/// Makes active_[next_] the first event; false where none is pending.
bool EventQueue::prepare() {
  if (late_.empty()) return next_ != active_.size() || open_next_bucket();
  if (next_ != active_.size() && active_[next_] < late_.front()) return true;
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
    if (!late_.empty() || next_ != active_.size()) return prepare();
  }
  const std::uint64_t near = next_occupied();
  const std::uint64_t distant = far_.empty() ? kNoBucket : bucket_of(far_.front().time);
  const std::uint64_t opened = std::min(near, distant);
  census_.skipped += opened - current_ - 1;
  current_ = opened;
  active_.resize(1);
  next_ = 1;
  if (near == opened) empty_bucket(opened & (bucket_count_ - 1));
  while (!far_.empty() && bucket_of(far_.front().time) <= opened) {
    active_.push_back(heap_pop(far_));
  }
  ++census_.opened;
  census_.events += active_.size() - 1;
  sort_active();
  return true;
}

/// The number of the first bucket of the wheel that holds events.
std::uint64_t EventQueue::next_occupied() const {
  const std::uint64_t first = (current_ + 1) & (bucket_count_ - 1);
  const std::uint64_t words = occupied_.size();
  std::uint64_t word = first / 64;
  std::uint64_t bits = occupied_[word] & (~std::uint64_t{0} << (first % 64));
  for (std::uint64_t looked = 0; looked <= words; ++looked) {
    if (bits != 0) {
      const std::uint64_t slot = word * 64 + static_cast<std::uint64_t>(std::countr_zero(bits));
      return current_ + 1 + ((slot - first) & (bucket_count_ - 1));
    }
    word = word + 1 == words ? 0 : word + 1;
    bits = occupied_[word];
  }
  return kNoBucket;
}

/// Moves a bucket's events behind those of active_.
void EventQueue::empty_bucket(std::uint64_t slot) {
  occupied_[slot / 64] &= ~(std::uint64_t{1} << (slot % 64));
  const std::uint64_t rest = occupied_[slot / 64] >> (slot % 64);
  prefetch_ = 0;
  if (rest != 0) prefetch_ = heads_[slot + std::countr_zero(rest)];
  prefetch_chunk();
  std::uint32_t at = heads_[slot];
  heads_[slot] = 0;
  while (at != 0) {
    Chunk& chunk = chunks_[at];
    active_.insert(active_.end(), chunk.events, chunk.events + chunk.count);
    const std::uint32_t next = chunk.next;
    chunk.next = free_chunk_;
    free_chunk_ = at;
    at = next;
  }
}

void EventQueue::sort_active() {
  const std::size_t size = active_.size();
  if (size > 32) {
    std::sort(active_.begin() + 1, active_.end());
    return;
  }
  for (std::size_t i = 2; i < size; ++i) {
    const Event event = active_[i];
    std::size_t at = i;
    for (; at > 1 && event < active_[at - 1]; --at) active_[at] = active_[at - 1];
    active_[at] = event;
  }
}

/// Fits the buckets' width and number to what came out of them. Called between two buckets.
void EventQueue::tune() {
  const Census seen = census_;
  census_ = {};
  popped_at_census_ = popped_;
  census_interval_ = std::max<std::uint64_t>(census_interval_, size_ / 4);
  const std::uint64_t pushes = seen.events + seen.late_pushes;
  const std::uint64_t per_bucket = pushes / std::max<std::uint64_t>(seen.opened, 1);
  const bool too_far = seen.far_pushes * 16 > pushes;
  const bool too_empty = seen.skipped > seen.opened * 512;
  if (floor_holds_ > 0 && --floor_holds_ == 0) floor_shift_ = 0;
  if (too_far && per_bucket > kFewPerBucket && bucket_count_ < kMostBuckets) {
    rebuild(width_shift_, bucket_count_ * 2);
  } else if (too_far || too_empty) {
    change_shape(1, seen.far_pushes * 3 > pushes || seen.skipped > seen.opened * 4096 ? 3 : 1);
    floor_shift_ = width_shift_;
    floor_holds_ = kFloorHolds;
  } else if (per_bucket > kManyPerBucket && width_shift_ > floor_shift_) {
    change_shape(-1, static_cast<unsigned>(std::bit_width(per_bucket / kFewPerBucket)) - 1);
  }
}

/// Narrower (-1) or wider buckets.
void EventQueue::change_shape(int direction, unsigned steps) {
  if (direction > 0) return rebuild(std::min(width_shift_ + steps, kWidestShift), bucket_count_);
  steps = std::min(std::max(steps, 1u), width_shift_ - floor_shift_);
  // The wheel still has to reach as far, if there is anything to fill it with.
  std::uint64_t count = bucket_count_;
  for (unsigned i = 0; i < steps && count < kMostBuckets && size_ > count / 8; ++i) count *= 2;
  rebuild(width_shift_ - steps, count);
}

void EventQueue::rebuild(unsigned width_shift, std::uint64_t bucket_count) {
  std::vector<Event> pending = std::move(far_);
  far_.clear();
  active_.resize(1);
  next_ = 1;
  for (std::uint64_t slot = 0; slot < bucket_count_; ++slot) {
    if (heads_[slot] != 0) empty_bucket(slot);
  }
  pending.insert(pending.end(), active_.begin() + 1, active_.end());
  active_.resize(1);

  width_shift_ = width_shift;
  bucket_count_ = bucket_count;
  heads_.assign(bucket_count, 0);
  occupied_.assign(bucket_count / 64, 0);
  const std::uint64_t present = bucket_of(now_);
  current_ = present == 0 ? 0 : present - 1;
  size_ -= pending.size();
  for (const Event& event : pending) push(event);
  census_ = {};
}

}  // namespace tutti::sim
