#include "failing_allocation.hpp"

#include <execinfo.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>
#include <utility>

namespace {

/// The allocation with this number, counted from 1 for the next one, fails; 0 or less: none fails.
std::atomic<long> g_left{0};
thread_local bool t_exempt = false;  ///< true: the allocations of this thread do not count
std::array<void*, 48> g_stack;
std::atomic<int> g_depth{0};  ///< number of entries in g_stack; 0 until an allocation fails

/// Whether the present allocation is the one that fails.
bool fails_now() {
  if (t_exempt || g_left.load(std::memory_order_relaxed) <= 0) return false;
  if (g_left.fetch_sub(1) != 1) return false;
  g_depth = ::backtrace(g_stack.data(), static_cast<int>(g_stack.size()));
  return true;
}

void* take(std::size_t bytes, std::size_t alignment) {
  if (fails_now()) return nullptr;
  const std::size_t rounded = (std::max<std::size_t>(bytes, 1) + alignment - 1) & ~(alignment - 1);
  if (alignment <= alignof(std::max_align_t)) return std::malloc(rounded);
  return std::aligned_alloc(alignment, rounded);
}

void* take_or_throw(std::size_t bytes, std::size_t alignment) {
  void* const memory = take(bytes, alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

constexpr std::size_t kUsual = alignof(std::max_align_t);

}  // namespace

namespace tutti::test {

void fail_allocation(long number) { g_left = number; }
bool allocation_failed() { return g_depth != 0; }
std::span<void* const> stack_of_failed_allocation() {
  return std::span(g_stack).first(static_cast<std::size_t>(g_depth.load()));
}
void forget_failed_allocation() { g_depth = 0; }

ExemptFromFailure::ExemptFromFailure() : before_(std::exchange(t_exempt, true)) {}
ExemptFromFailure::~ExemptFromFailure() { t_exempt = before_; }

}  // namespace tutti::test

void* operator new(std::size_t bytes) { return take_or_throw(bytes, kUsual); }
void* operator new[](std::size_t bytes) { return take_or_throw(bytes, kUsual); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return take_or_throw(bytes, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  return take_or_throw(bytes, static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return take(bytes, kUsual);
}
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept {
  return take(bytes, kUsual);
}
void* operator new(std::size_t bytes, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return take(bytes, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment,
                     const std::nothrow_t&) noexcept {
  return take(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete[](void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t, const std::nothrow_t&) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::align_val_t, const std::nothrow_t&) noexcept {
  std::free(memory);
}
