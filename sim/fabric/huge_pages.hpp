// Memory in large pages. A simulation of many hosts accesses memory at random; with small pages
// this causes many misses of the translation lookaside buffer.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdlib>
#include <new>

namespace tutti::sim {

/// An allocator for standard containers. It falls back to ordinary memory if the system has no
/// large pages.
template <typename T>
struct HugePages {
  using value_type = T;

  HugePages() = default;
  template <typename Other>
  explicit HugePages(const HugePages<Other>&) {}

  T* allocate(std::size_t count) {
    const std::size_t bytes = count * sizeof(T);
    const bool large = bytes >= kPageBytes;
    const std::size_t unit = large ? kPageBytes : kLineBytes;
    const std::size_t rounded = (bytes + unit - 1) / unit * unit;
    void* memory = std::aligned_alloc(unit, rounded);
    if (memory == nullptr) throw std::bad_alloc();
    if (large) ::madvise(memory, rounded, MADV_HUGEPAGE);
    return static_cast<T*>(memory);
  }
  void deallocate(T* memory, std::size_t) { std::free(memory); }

  friend bool operator==(const HugePages&, const HugePages&) { return true; }

 private:
  static constexpr std::size_t kPageBytes = std::size_t{2} << 20;
  static constexpr std::size_t kLineBytes = 64;
  static_assert(alignof(T) <= kLineBytes);
};

}  // namespace tutti::sim
