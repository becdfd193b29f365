// Which traffic of this process goes first into an interface (K14). The root of a multicast has its
// turn once, and everybody waits for it; what goes to single peers by reliable connections has all
// the other turns. In the interface's one queue both would get a share of the link, and a turn
// would take longer than it has to.
#pragma once

#include <atomic>
#include <memory>
#include <utility>

namespace tutti::device::ip {

/// One for each interface of a process, whose communicators share it. Thread-safe.
class EgressPriority {
 public:
  static std::shared_ptr<EgressPriority> of(unsigned interface_index);

  /// Chunks wait for room in the interface's queue: reliable connections hold back.
  bool multicast_waits() const { return waiting_.load(std::memory_order_relaxed) > 0; }

 private:
  friend class EgressClaim;
  std::atomic<int> waiting_{0};
};

/// What one queue pair says there. Used by one thread at a time.
class EgressClaim {
 public:
  explicit EgressClaim(std::shared_ptr<EgressPriority> injection)
      : injection_(std::move(injection)) {}
  ~EgressClaim() { waits(false); }
  EgressClaim(const EgressClaim&) = delete;
  EgressClaim& operator=(const EgressClaim&) = delete;

  void waits(bool on) {
    if (on == on_ || !injection_) return;
    on_ = on;
    injection_->waiting_.fetch_add(on ? 1 : -1, std::memory_order_relaxed);
  }

 private:
  std::shared_ptr<EgressPriority> injection_;
  bool on_ = false;
};

}  // namespace tutti::device::ip
