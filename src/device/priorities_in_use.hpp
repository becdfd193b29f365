// The priorities of the calls at one network interface of this process, and the time at which data
// of each priority last arrived. A sender whose priority is not the highest in use keeps the queue
// of the interface short. While data of a higher priority arrives, the sender also keeps few frames
// in flight, because that data needs the links.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "tutti/priority.hpp"
#include "tutti/units.hpp"

namespace tutti::device {

/// Thread-safe.
class PrioritiesInUse {
 public:
  /// Records that a call of this priority has begun. The priority remains in use, because a program
  /// is expected to use its priorities again.
  void add(Priority priority) { used_[place(priority)].store(true, std::memory_order_relaxed); }
  bool any_above(Priority priority) const {
    return (priority < Priority::high && used(Priority::high)) ||
           (priority < Priority::normal && used(Priority::normal));
  }
  bool any_below(Priority priority) const {
    return (priority > Priority::low && used(Priority::low)) ||
           (priority > Priority::normal && used(Priority::normal));
  }

  /// Records that multicast data of a call has arrived.
  void on_arrival(Priority priority, Instant now) {
    arrived_[place(priority)].store(now.nanoseconds, std::memory_order_relaxed);
  }
  /// True if data of a higher priority has arrived within the last kMoment.
  bool arrives_above(Priority priority, Instant now) const {
    for (std::size_t above = place(priority) + 1; above < arrived_.size(); ++above) {
      const Instant last{arrived_[above].load(std::memory_order_relaxed)};
      if (now - last < kMoment) return true;
    }
    return false;
  }

 private:
  /// Data of a priority counts as arriving until this much time passes without further data. The
  /// time is longer than the pause between the blocks of two ranks of a chain.
  static constexpr Nanoseconds kMoment{2'000'000};

  static std::size_t place(Priority priority) {
    return static_cast<std::size_t>(static_cast<int>(priority) + 1);
  }
  bool used(Priority priority) const {
    return used_[place(priority)].load(std::memory_order_relaxed);
  }

  std::array<std::atomic<bool>, 3> used_{};
  std::array<std::atomic<std::int64_t>, 3> arrived_{};
};

}  // namespace tutti::device
