// Lossless mode: a packet leaves a port only when the switch at the far end of the link has room
// for it.
//
// A packet takes the room when its departure is computed. It returns the room when its last copy
// has left the switch at the far end. A packet for which there is no room waits, and its port wakes
// up when credits return.
//
// A waiting packet still occupies room in the switch where it waits. Blocking therefore spreads
// towards the senders and also delays packets for idle ports (head-of-line blocking). If all routes
// go first up and then down, no deadlock is possible.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/fabric/core/link_timing.hpp"
#include "sim/fabric/core/slab.hpp"
#include "sim/fabric/core/train_part.hpp"
#include "sim/fabric/event_queue.hpp"
#include "sim/fabric/fabric_types.hpp"
#include "sim/fabric/topology.hpp"

namespace tutti::sim {

/// A copy of a packet that waits for credits of its next link.
struct CreditWaiter {
  TrainPart part;
  Picoseconds ready;
  std::uint32_t hold = 0;
  std::uint32_t next = 0;
};

class LinkCredits {
 public:
  /// Credits that return: `bytes` at a time, `count` times, first at `time` and then at intervals
  /// of `spacing`.
  struct Release {
    Picoseconds time;
    Picoseconds spacing;
    std::uint32_t bytes = 0;
    std::uint32_t count = 0;
  };

  /// `queue` and `timing` must outlive this object.
  LinkCredits(EventQueue& queue, const Topology& topology, const LinkTiming& timing,
              const FabricSettings& settings);

  /// Whether the fabric is in lossless mode. In lossy mode only waits() and bytes() may be called.
  bool enabled() const { return !credits_.empty(); }
  /// Whether packets wait for credits at the port of a link.
  bool waits(LinkId link) const {
    return !credits_.empty() && credits_[index(link)].first_waiter != 0;
  }
  /// Adds to the link the credits that are known to return by `when`. Returns whether the far end
  /// of the link then has room for a packet of `bytes`.
  bool reclaim(LinkId link, Picoseconds when, std::uint64_t bytes);
  void take(LinkId link, std::uint64_t bytes) { credits_[index(link)].taken_bytes += bytes; }
  /// Returns credits to `link`, and wakes the link's port if packets wait there.
  void release(LinkId link, const Release& room);

  /// Queues a copy of an arrived or injected packet at the port of a link, where the copy waits for
  /// credits.
  void wait(LinkId link, Incoming& in, const TrainPart& part, Picoseconds ready);
  /// Must be called when the `fabric_credit` event of a link is handled, before the next wake-up is
  /// scheduled.
  void woken(LinkId link) { credits_[index(link)].wake_at = kForever; }
  /// The first of the copies that wait at the port of a link. At least one copy must wait.
  const CreditWaiter& first_waiter(LinkId link) {
    return waiters_[credits_[index(link)].first_waiter];
  }
  void remove_first_waiter(LinkId link);
  /// Wakes the port of a link when the link's next credits return.
  void wake_at_next_release(LinkId link);

  /// Whether a waiting copy is still at the port of its sending host. If so, it occupies no buffer
  /// of a switch.
  bool injected(const CreditWaiter& waiter) { return holds_[waiter.hold].in == kNoLink; }
  /// Must be called when a copy leaves, at `when`, after a wait for credits. The last copy of a
  /// packet frees the buffer space of the packet in its switch.
  void copy_left(std::uint32_t hold, Picoseconds when, std::uint32_t bytes);
  /// Computes when the buffer space of a packet in its switch becomes free. Must be called once
  /// every copy of the packet has either left or begun to wait for credits.
  void finish_input(const Incoming& in, const TrainPart& part, std::uint32_t wire_bytes);

  std::size_t bytes() const;

 private:
  /// The buffer space that a packet occupies in a switch until its last copy has left.
  struct Hold {
    LinkId in = kNoLink;
    std::uint32_t waiting = 0;  ///< number of copies that wait
    Picoseconds left_at;        ///< latest instant at which a copy has left so far
  };
  /// The room in the input buffer at the far end of a link, as far as the sending port knows it.
  struct Credit {
    std::uint64_t taken_bytes = 0;
    /// Returning credits in order of time. Entries before index next_release have already been
    /// added to the link.
    std::vector<Release> releases;
    std::uint32_t next_release = 0;
    std::uint32_t first_waiter = 0;
    std::uint32_t last_waiter = 0;
    Picoseconds wake_at = kForever;
  };
  void insert_release(Credit& credit, const Release& room);
  void wake_at(LinkId link, Picoseconds when);

  EventQueue& queue_;
  const LinkTiming& timing_;
  const std::uint64_t credit_bytes_;
  std::vector<Credit> credits_;  ///< credits of each link; empty in lossy mode
  Slab<CreditWaiter> waiters_;   ///< copies that wait for credits; index 0 is not used
  Slab<Hold> holds_;  ///< buffer space of packets with waiting copies; index 0 is not used
};

}  // namespace tutti::sim
