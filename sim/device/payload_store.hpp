// The bytes of packets in the simulated fabric. All receivers of a packet share one copy, whose
// memory is reused after the last release.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace tutti::device::sim {

/// A buffer of bytes with a reference count.
struct Payload {
  std::uint32_t references = 0;
  std::uint32_t size_bytes = 0;
  std::uint32_t size_class = 0;
  Payload* next_free = nullptr;

  std::byte* data() { return reinterpret_cast<std::byte*>(this + 1); }
  std::span<std::byte> bytes() { return {data(), size_bytes}; }
};

/// Allocates payloads whose sizes are powers of two, from slabs that live as long as the store.
class PayloadStore {
 public:
  PayloadStore() = default;
  PayloadStore(const PayloadStore&) = delete;
  PayloadStore& operator=(const PayloadStore&) = delete;

  /// Allocates a payload of `size_bytes` uninitialised bytes. The payload is freed when it has been
  /// released `references` times.
  Payload* allocate(std::size_t size_bytes, std::uint32_t references) {
    const auto size_class = static_cast<std::uint32_t>(
        std::bit_width(size_bytes <= kSmallest ? 0 : (size_bytes - 1) / kSmallest));
    Payload*& free = free_[size_class];
    if (free == nullptr) refill(size_class);
    Payload* payload = free;
    free = payload->next_free;
    payload->references = references;
    payload->size_bytes = static_cast<std::uint32_t>(size_bytes);
    ++live_;
    return payload;
  }
  void release(Payload* payload, std::uint32_t references = 1) {
    if (payload == nullptr || (payload->references -= references) != 0) return;
    payload->next_free = free_[payload->size_class];
    free_[payload->size_class] = payload;
    --live_;
  }
  /// Number of payloads that have not been freed.
  std::uint64_t live() const { return live_; }

 private:
  static constexpr std::size_t kSmallest = 64;
  static constexpr std::size_t kClasses = 27;  // number of size classes, from 64 bytes to 4 GiB
  static constexpr std::size_t kSlabBytes = 16 * 1024;

  void refill(std::uint32_t size_class) {
    const std::size_t stride = sizeof(Payload) + (kSmallest << size_class);
    const std::size_t count = std::max<std::size_t>(1, kSlabBytes / stride);
    slabs_.push_back(std::make_unique_for_overwrite<std::byte[]>(count * stride));
    for (std::size_t i = count; i-- > 0;) {
      auto* payload = new (slabs_.back().get() + i * stride) Payload;
      payload->size_class = size_class;
      payload->next_free = free_[size_class];
      free_[size_class] = payload;
    }
  }

  std::array<Payload*, kClasses> free_{};
  std::vector<std::unique_ptr<std::byte[]>> slabs_;
  std::uint64_t live_ = 0;
};

static_assert(alignof(Payload) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__);

}  // namespace tutti::device::sim
