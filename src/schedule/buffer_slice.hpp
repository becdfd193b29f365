// Buffer slices: symbolic places in a rank's buffers, such as blocks 2 and 3 of the receive buffer.
// A task names slices instead of addresses, so one schedule works for every block size.
//
// If a block has k parts, part i begins at element floor(i * elements / k). Equal fractions such as
// 1/2 and 2/4 therefore mean the same element for every block size, and the validator compares
// fractions instead of sizes.
#pragma once

#include <compare>
#include <cstdint>

namespace tutti::schedule {

/// The buffers that a task may name.
enum class Buffer : std::uint8_t {
  none,     ///< no buffer: the message carries no bytes
  send,     ///< the caller's data, read only
  receive,  ///< buffer of the result; in a Broadcast, the only buffer of every rank
  scratch,  ///< temporary memory from the engine, with as many blocks as the schedule reserves
};
inline constexpr std::uint32_t kBufferKinds = 4;

const char* to_string(Buffer buffer);

/// A position within a block, as a fraction of the block's length: `index` divided by `parts`.
struct Fraction {
  std::uint32_t index = 0;
  std::uint32_t parts = 1;

  friend constexpr bool operator==(Fraction a, Fraction b) {
    return std::uint64_t{a.index} * b.parts == std::uint64_t{b.index} * a.parts;
  }
  friend constexpr std::strong_ordering operator<=>(Fraction a, Fraction b) {
    return std::uint64_t{a.index} * b.parts <=> std::uint64_t{b.index} * a.parts;
  }
};

/// A buffer slice: the whole blocks [first_block, first_block + block_count) of a buffer, or a
/// range of parts of one block. In the second case the block has `parts` equal parts, and the slice
/// covers the parts [part_first, part_last).
struct BufferSlice {
  Buffer buffer = Buffer::none;
  std::uint32_t first_block = 0;
  std::uint32_t block_count = 0;
  std::uint32_t part_first = 0;
  std::uint32_t part_last = 1;
  std::uint32_t parts = 1;

  constexpr bool empty() const { return buffer == Buffer::none || block_count == 0; }
  constexpr bool whole_blocks() const { return part_first == 0 && part_last == parts; }
  constexpr std::uint32_t last_block() const { return first_block + block_count; }
  constexpr Fraction begin() const { return {part_first, parts}; }
  constexpr Fraction end() const { return {part_last, parts}; }

  /// Divides this slice, which must lie within one block, into `of` equal parts and returns the
  /// part with index `at`.
  constexpr BufferSlice part(std::uint32_t at, std::uint32_t of) const {
    return part(at, at + 1, of);
  }
  /// Divides this slice, which must lie within one block, into `of` equal parts and returns the
  /// parts [first, last).
  constexpr BufferSlice part(std::uint32_t first, std::uint32_t last, std::uint32_t of) const {
    const std::uint32_t width = part_last - part_first;
    BufferSlice result = *this;
    result.parts = parts * of;
    result.part_first = part_first * of + width * first;
    result.part_last = part_first * of + width * last;
    return result;
  }

  friend constexpr bool operator==(const BufferSlice&, const BufferSlice&) = default;
};

/// Blocks [first, first + count) of a buffer.
constexpr BufferSlice blocks_of(Buffer buffer, std::uint32_t first, std::uint32_t count) {
  return {buffer, first, count, 0, 1, 1};
}
constexpr BufferSlice block_of(Buffer buffer, std::uint32_t at) { return blocks_of(buffer, at, 1); }

/// True if two slices of one rank share a byte for some block size.
constexpr bool overlap(const BufferSlice& a, const BufferSlice& b) {
  return a.buffer == b.buffer && a.buffer != Buffer::none && a.first_block < b.last_block() &&
         b.first_block < a.last_block() && a.begin() < b.end() && b.begin() < a.end();
}

/// True if every byte of `inner` lies in `outer` for every block size.
constexpr bool contains(const BufferSlice& outer, const BufferSlice& inner) {
  return outer.buffer == inner.buffer && outer.first_block <= inner.first_block &&
         inner.last_block() <= outer.last_block() && outer.begin() <= inner.begin() &&
         inner.end() <= outer.end();
}

/// True if two slices have the same length in bytes for every block size.
constexpr bool same_extent(const BufferSlice& a, const BufferSlice& b) {
  if (a.empty() || b.empty()) return a.empty() == b.empty();
  return a.block_count == b.block_count && a.begin() == b.begin() && a.end() == b.end();
}

/// The first element of a part: floor(elements * index / parts), without overflow.
constexpr std::uint64_t part_border(std::uint64_t elements, std::uint64_t index_in_parts,
                                    std::uint64_t parts) {
  return elements / parts * index_in_parts + elements % parts * index_in_parts / parts;
}

}  // namespace tutti::schedule
