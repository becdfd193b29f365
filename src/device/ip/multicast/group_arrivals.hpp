// Queues of the membership probes and the frames of reliable connections that arrive through a
// multicast group. The receive side adds to them and the owner of the endpoint takes from them,
// possibly in two threads.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include "tutti/units.hpp"

namespace tutti::device::ip {

/// A membership probe that has arrived through a group.
struct ProbeArrival {
  Rank source = kNoRank;
  std::uint32_t subgroup = 0;
  std::uint32_t bytes = 0;  ///< size of the probe's datagram in bytes
};

/// A frame of a reliable connection that is addressed to this rank and has arrived through a
/// multicast group.
struct FrameArrival {
  Rank source = kNoRank;
  std::vector<std::byte> frame;
};

/// A queue of arrivals of one kind. Arrivals are rare, so an atomic flag lets `take` skip the lock
/// while the queue is empty.
template <typename T>
class GroupArrivals {
 public:
  /// Capacity of the queue; further arrivals are dropped, as by a full socket buffer.
  static constexpr std::size_t kMax = 1024;

  /// Adds an arrival; false if there is no room.
  bool add(T one) {
    const std::lock_guard lock(mutex_);
    if (waiting_.size() == kMax) return false;
    waiting_.push_back(std::move(one));
    any_.store(true, std::memory_order_release);
    return true;
  }
  bool any() const { return any_.load(std::memory_order_acquire); }
  std::vector<T> take() {
    if (!any()) return {};
    const std::lock_guard lock(mutex_);
    any_.store(false, std::memory_order_relaxed);
    return std::exchange(waiting_, {});
  }

 private:
  std::mutex mutex_;
  std::atomic<bool> any_{false};
  std::vector<T> waiting_;
};

}  // namespace tutti::device::ip
