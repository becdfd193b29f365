// Lossless mode: a packet leaves a port only when the switch at the far end of the link has room
// for it.
//
// A packet takes the room when its departure is computed, and returns the room when its last copy
// has left the switch at the far end. A packet that finds no room waits, and its port wakes up when
// credits return.
//
// A waiting packet retains its room in its own switch, so blocking spreads towards the senders and
// also delays packets for idle ports (head-of-line blocking). Routes that go up and then down never
// deadlock.
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
  /// Gives the link the credits that return by `when`, as far as known. Returns whether a packet of
  /// `bytes` then has room at the far end of the link.
  bool reclaim(LinkId link, Picoseconds when, std::uint64_t bytes);
  void take(LinkId link, std::uint64_t bytes) { credits_[index(link)].taken_bytes += bytes; }
  /// Returns credits to `link`, and wakes the link's port if packets wait there.
  void release(LinkId link, const Release& room);

  /// Queues a copy of an arrived or injected packet at the port of a link until it has credits.
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

  /// Whether a waiting copy comes directly from a host, so that it occupies no buffer of a switch.
  bool injected(const CreditWaiter& waiter) { return holds_[waiter.hold].in == kNoLink; }
  /// Must be called when a waiting copy leaves, at `when`. The last copy of a packet frees the
  /// packet's room in its switch.
  void copy_left(std::uint32_t hold, Picoseconds when, std::uint32_t bytes);
  /// Computes when a packet's room in its switch is free again. Must be called once every copy of
  /// the packet has left or waits for credits.
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
    /// Credits in the order of the times at which they return. Those before index next_release have
    /// returned already.
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
