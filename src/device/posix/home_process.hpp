// The process in which an object was made. After fork() the child has a copy of the object, but its
// sockets, threads and shared memory belong to the parent.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

namespace tutti::device {

/// Number of forks between the first process that loaded the library and this process.
extern std::atomic<std::uint32_t> fork_generation;

class HomeProcess {
 public:
  HomeProcess() : generation_(fork_generation.load()), process_(::getpid()) {}

  /// True in a process that was forked after this object was made. Costs one load.
  bool left() const { return generation_ != fork_generation.load(std::memory_order_relaxed); }
  pid_t process() const { return process_; }
  std::uint32_t generation() const { return generation_; }

 private:
  std::uint32_t generation_;
  pid_t process_;
};

/// Leaks an object whose destructor would affect the parent of this process. A list keeps the
/// object reachable, so that leak checkers do not report it.
void abandon(void* object);

}  // namespace tutti::device
