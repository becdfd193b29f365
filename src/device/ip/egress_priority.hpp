// The order in which data of this process goes to one network interface: by the priority of its
// call and, within one priority, multicast before reliable connections ([Khalilov24] 7). Multicast
// goes first, because all ranks wait for the multicast of a root.
//
// The urgency of data is its position in this order. A sender whose ready data finds no room makes
// a claim, and senders of a lower urgency hold back until the claim is withdrawn. Reliable
// connections also hold back while multicast data of a higher priority arrives. Once the process
// has used a higher priority, connections keep the queue of the interface short even while no data
// of that priority waits or arrives.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "device/priorities_in_use.hpp"
#include "tutti/priority.hpp"

namespace tutti::device::ip {

/// The position of data in the order of all data that waits for an interface.
struct Urgency {
  Priority priority = Priority::normal;
  bool multicast = false;

  static constexpr int kLevels = 6;
  constexpr int level() const { return 2 * (static_cast<int>(priority) + 1) + (multicast ? 1 : 0); }
};

/// The egress priority at one interface; one object serves all communicators of a process.
/// Thread-safe.
class EgressPriority {
 public:
  static std::shared_ptr<EgressPriority> of(unsigned interface_index);

  /// True while data of a higher urgency waits for room in the interface's queue.
  bool claimed_above(Urgency urgency) const {
    for (int level = urgency.level() + 1; level < Urgency::kLevels; ++level) {
      if (claims_[static_cast<std::size_t>(level)].load(std::memory_order_relaxed) > 0) return true;
    }
    return false;
  }
  /// Number of bytes that may now be sent through a socket with this urgency; an empty value sets
  /// no limit.
  std::optional<std::uint64_t> allowance(Urgency urgency, int socket) const;
  PrioritiesInUse& priorities() { return priorities_; }

 private:
  friend class EgressClaim;
  std::array<std::atomic<int>, Urgency::kLevels> claims_{};
  PrioritiesInUse priorities_;
};

/// The claim of one sender to egress priority. Used by one thread at a time.
class EgressClaim {
 public:
  explicit EgressClaim(std::shared_ptr<EgressPriority> egress) : egress_(std::move(egress)) {}
  ~EgressClaim() { withdraw(); }
  EgressClaim(const EgressClaim&) = delete;
  EgressClaim& operator=(const EgressClaim&) = delete;

  void claim(Urgency urgency) { set(urgency.level()); }
  void withdraw() { set(kNone); }

 private:
  static constexpr int kNone = -1;

  void set(int level) {
    if (level == level_ || !egress_) return;
    if (level != kNone) add(level, 1);
    if (level_ != kNone) add(level_, -1);
    level_ = level;
  }
  void add(int level, int claims) {
    egress_->claims_[static_cast<std::size_t>(level)].fetch_add(claims, std::memory_order_relaxed);
  }

  std::shared_ptr<EgressPriority> egress_;
  int level_ = kNone;
};

}  // namespace tutti::device::ip
