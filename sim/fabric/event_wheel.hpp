// The near future of an event queue: a wheel of narrow buckets.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "sim/fabric/event.hpp"
#include "sim/fabric/huge_pages.hpp"

namespace tutti::sim {

/// The distance from bit `from` of a ring of bits to the next set bit in ascending order; all ones
/// if no bit is set.
template <std::size_t kWords>
std::uint64_t first_set(const std::array<std::uint64_t, kWords>& ring, std::uint64_t from) {
  std::uint64_t word = from / 64;
  std::uint64_t bits = ring[word] & (~std::uint64_t{0} << (from % 64));
  for (std::uint64_t looked = 0; looked <= kWords; ++looked) {
    if (bits != 0) {
      const std::uint64_t at = word * 64 + static_cast<std::uint64_t>(std::countr_zero(bits));
      return (at - from) % (kWords * 64);
    }
    word = (word + 1) % kWords;
    bits = ring[word];
  }
  return ~std::uint64_t{0};
}

/// Holds the unsorted events of kBuckets consecutive buckets, and a bitmap of the buckets that have
/// events. Bucket numbers grow without bound and are reduced modulo kBuckets; all stored events lie
/// within kBuckets consecutive buckets.
class EventWheel {
 public:
  static constexpr unsigned kBucketBits = 11;
  static constexpr std::uint64_t kBuckets = 1u << kBucketBits;

  EventWheel() : heads_(kBuckets), chunks_(1) {}

  void push(const Event& event, std::uint64_t bucket) {
    const std::uint64_t slot = bucket % kBuckets;
    std::uint32_t head = heads_[slot];
    if (head == 0 || chunks_[head].count == kChunkEvents) {
      head = take_chunk(heads_[slot]);
      heads_[slot] = head;
      occupied_[slot / 64] |= std::uint64_t{1} << (slot % 64);
    }
    Chunk& chunk = chunks_[head];
    chunk.events[chunk.count++] = event;
  }
  /// The distance from `bucket` to the first bucket with events; all ones if no bucket has events.
  std::uint64_t distance_from(std::uint64_t bucket) const {
    return first_set(occupied_, bucket % kBuckets);
  }
  /// Moves a bucket's events to `to`, from index `end` on. Returns the index behind the last event
  /// moved.
  std::size_t take(std::uint64_t bucket, std::vector<Event>& to, std::size_t end) {
    const std::uint64_t slot = bucket % kBuckets;
    occupied_[slot / 64] &= ~(std::uint64_t{1} << (slot % 64));
    std::uint32_t at = std::exchange(heads_[slot], 0);
    const std::uint64_t rest = occupied_[slot / 64] >> (slot % 64);
    if (rest != 0) prefetch(heads_[slot + static_cast<unsigned>(std::countr_zero(rest))]);
    while (at != 0) {
      Chunk& chunk = chunks_[at];
      if (end + kChunkEvents > to.size()) to.resize(2 * to.size());
      // Copies unused entries too, because a copy of constant length is faster.
      for (std::uint32_t i = 0; i < kChunkEvents; ++i) to[end + i] = chunk.events[i];
      end += chunk.count;
      const std::uint32_t next = chunk.next;
      chunk.next = free_chunk_;
      free_chunk_ = at;
      at = next;
    }
    return end;
  }

 private:
  static constexpr std::uint32_t kChunkEvents = 5;

  /// Up to kChunkEvents events of one bucket, in two cache lines. The chunk freed last is reused
  /// first, because it is still in the cache.
  struct Chunk {
    Event events[kChunkEvents];
    std::uint32_t count = 0;
    std::uint32_t next = 0;
  };
  static_assert(sizeof(Chunk) == 128);

  void prefetch(std::uint32_t at) {
    const char* chunk = reinterpret_cast<const char*>(&chunks_[at]);
    __builtin_prefetch(chunk);
    __builtin_prefetch(chunk + 64);
  }
  std::uint32_t take_chunk(std::uint32_t next);

  /// For each bucket, the index in chunks_ of the chunk that is being filled; 0 if the bucket is
  /// empty.
  std::vector<std::uint32_t> heads_;
  std::array<std::uint64_t, kBuckets / 64> occupied_{};
  std::vector<Chunk, HugePages<Chunk>> chunks_;  ///< chunks of events; index 0 is unused
  std::uint32_t free_chunk_ = 0;
};

}  // namespace tutti::sim
