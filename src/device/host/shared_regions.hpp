// The registered memory of one rank, published in the rank's shared segment, so that peers find it
// by its key without the rank's help.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "device/device.hpp"

namespace tutti::device::host {

/// One published region. Its key is stored last and cleared first; 0 marks a free entry.
struct SharedRegion {
  std::atomic<std::uint64_t> key;
  std::atomic<std::uint64_t> address;  ///< address of the region in the owner's address space
  std::atomic<std::uint64_t> bytes;
};

/// The published regions of one rank. The owner publishes and withdraws regions; peers only look
/// them up.
class SharedRegions {
 public:
  /// Number of entries. The key of a region determines its entry. If another region uses this
  /// entry, the region is not published, and peers READ the region by frames.
  static constexpr std::uint32_t kRegions = 256;

  SharedRegions() = default;
  explicit SharedRegions(std::span<std::byte> memory)
      : regions_(reinterpret_cast<SharedRegion*>(memory.data())) {}

  static constexpr std::size_t bytes() { return kRegions * sizeof(SharedRegion); }

  void publish(MemoryKey key, std::span<const std::byte> memory) const {
    SharedRegion& region = entry(key);
    if (region.key.load(std::memory_order_relaxed) != 0) return;
    region.address.store(reinterpret_cast<std::uintptr_t>(memory.data()),
                         std::memory_order_relaxed);
    region.bytes.store(memory.size(), std::memory_order_relaxed);
    region.key.store(key.key, std::memory_order_release);
  }
  // The fence in `withdraw` pairs with the fence that a peer executes after it has copied bytes of
  // the region. A peer that has copied bytes written after the withdrawal therefore finds the entry
  // free and discards the bytes.
  void withdraw(MemoryKey key) const {
    if (!holds(key)) return;
    entry(key).key.store(0, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_seq_cst);
  }
  void withdraw_all() const {
    for (SharedRegion& region : std::span(regions_, kRegions))
      region.key.store(0, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_seq_cst);
  }

  bool holds(MemoryKey key) const {
    return key.key != 0 && entry(key).key.load(std::memory_order_acquire) == key.key;
  }
  /// Returns the address of the byte at `offset` of a region, in the owner's address space. Returns
  /// nothing if the region is not published or has fewer than `offset` + `length` bytes.
  std::optional<std::uint64_t> find(MemoryKey key, std::uint64_t offset,
                                    std::uint64_t length) const {
    if (!holds(key)) return std::nullopt;
    const std::uint64_t bytes = entry(key).bytes.load(std::memory_order_relaxed);
    if (offset > bytes || length > bytes - offset) return std::nullopt;
    return entry(key).address.load(std::memory_order_relaxed) + offset;
  }

 private:
  // The low bits of a key are the index of its region in the owner's memory table.
  SharedRegion& entry(MemoryKey key) const { return regions_[key.key % kRegions]; }

  SharedRegion* regions_ = nullptr;
};

}  // namespace tutti::device::host
