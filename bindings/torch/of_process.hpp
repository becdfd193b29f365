// Objects of which each process has its own, also a child of fork().
#pragma once

#include <unistd.h>

#include <atomic>
#include <mutex>

namespace tutti::torch_backend {

/// The object of type T of this process, which the first call makes. It is never freed: its threads
/// may be detached, and a child of fork() cannot free a mutex that a thread of its parent held.
template <typename T>
T& of_process() {
  static std::atomic<T*> object{nullptr};
  static std::atomic<pid_t> owner{0};
  static std::mutex making;
  if (owner.load(std::memory_order_acquire) == ::getpid()) return *object;
  const std::lock_guard lock(making);
  if (owner.load(std::memory_order_acquire) != ::getpid()) {
    object = new T;
    owner.store(::getpid(), std::memory_order_release);
  }
  return *object;
}

}  // namespace tutti::torch_backend
