// Priority of multicast over reliable connections at one network interface of this process
// ([Khalilov24] 7). All ranks wait for the multicast of a root, while unicast can wait. Without
// priority both would share the interface's queue, and the multicast would take longer.
#pragma once

#include <atomic>
#include <memory>
#include <utility>

namespace tutti::device::ip {

/// The egress priority at one interface; one object serves all communicators of a process.
/// Thread-safe.
class EgressPriority {
 public:
  static std::shared_ptr<EgressPriority> of(unsigned interface_index);

  /// True while multicast chunks wait for room in the interface's queue; reliable connections then
  /// hold their frames back.
  bool multicast_waits() const { return waiting_.load(std::memory_order_relaxed) > 0; }

 private:
  friend class EgressClaim;
  std::atomic<int> waiting_{0};
};

/// The claim of one queue pair to egress priority. Used by one thread at a time.
class EgressClaim {
 public:
  explicit EgressClaim(std::shared_ptr<EgressPriority> egress) : egress_(std::move(egress)) {}
  ~EgressClaim() { waits(false); }
  EgressClaim(const EgressClaim&) = delete;
  EgressClaim& operator=(const EgressClaim&) = delete;

  void waits(bool on) {
    if (on == on_ || !egress_) return;
    on_ = on;
    egress_->waiting_.fetch_add(on ? 1 : -1, std::memory_order_relaxed);
  }

 private:
  std::shared_ptr<EgressPriority> egress_;
  bool on_ = false;
};

}  // namespace tutti::device::ip
