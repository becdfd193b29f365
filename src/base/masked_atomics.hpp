// The arithmetic of the masked atomic operations on a word of 64 bits [OFED-AT].
//
// A compare-and-swap compares only the bits of its compare mask and replaces only the bits of its
// swap mask. A fetch-and-add treats the word as fields: each set bit of its boundaries is the most
// significant bit of a field, and no carry leaves a field. A compare-and-swap with full masks and a
// fetch-and-add without boundaries are the plain atomics of InfiniBand. Both operations return the
// old value, whereas the pseudocode of [OFED-AT] returns the sum of a fetch-and-add and stores
// nothing.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace tutti {

enum class AtomicKind : std::uint8_t { compare_swap, fetch_add };

struct AtomicOperands {
  std::uint64_t compare_add = 0;  ///< value that a swap compares with, or addend of a fetch-and-add
  std::uint64_t swap = 0;
  /// For a compare-and-swap, the bits that are compared; for a fetch-and-add, the most significant
  /// bit of each field.
  std::uint64_t compare_mask = 0;
  std::uint64_t swap_mask = 0;  ///< bits that a compare-and-swap replaces

  static AtomicOperands compare_swap(std::uint64_t compare, std::uint64_t swap) {
    return {compare, swap, ~std::uint64_t{0}, ~std::uint64_t{0}};
  }
  static AtomicOperands fetch_add(std::uint64_t addend, std::uint64_t boundaries = 0) {
    return {.compare_add = addend, .compare_mask = boundaries};
  }
  friend bool operator==(const AtomicOperands&, const AtomicOperands&) = default;
};

/// The value that a masked compare-and-swap leaves in a word that contained `old`.
constexpr std::uint64_t masked_compare_swap(std::uint64_t old, const AtomicOperands& operands) {
  const bool equal = ((operands.compare_add ^ old) & operands.compare_mask) == 0;
  if (!equal) return old;
  return (old & ~operands.swap_mask) | (operands.swap & operands.swap_mask);
}

/// The value that a masked fetch-and-add leaves in a word that contained `old`.
constexpr std::uint64_t masked_fetch_add(std::uint64_t old, const AtomicOperands& operands) {
  // The top bit of each field is added by XOR, so that no carry leaves the field.
  const std::uint64_t top = operands.compare_mask;
  return ((old & ~top) + (operands.compare_add & ~top)) ^ ((old ^ operands.compare_add) & top);
}

constexpr std::uint64_t apply(AtomicKind kind, std::uint64_t old, const AtomicOperands& operands) {
  return kind == AtomicKind::compare_swap ? masked_compare_swap(old, operands)
                                          : masked_fetch_add(old, operands);
}

/// Executes an atomic operation on memory that other threads may change at the same time by atomic
/// operations. Returns the old value, or nothing if `memory` is not one aligned 64-bit word.
inline std::optional<std::uint64_t> execute(AtomicKind kind, std::span<std::byte> memory,
                                            const AtomicOperands& operands) {
  using Word = std::atomic_ref<std::uint64_t>;
  const bool aligned =
      reinterpret_cast<std::uintptr_t>(memory.data()) % Word::required_alignment == 0;
  if (memory.size() != sizeof(std::uint64_t) || !aligned) return std::nullopt;
  Word word(*reinterpret_cast<std::uint64_t*>(memory.data()));
  std::uint64_t old = word.load(std::memory_order_acquire);
  while (!word.compare_exchange_weak(old, apply(kind, old, operands), std::memory_order_acq_rel,
                                     std::memory_order_acquire)) {
  }
  return old;
}

}  // namespace tutti
