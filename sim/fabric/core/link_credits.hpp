// Lossless mode: a packet leaves a port only when the switch at the far end has room for it.
//
// A link has `credit_bytes` of room at its far end. A packet takes its share when its departure is
// computed and returns it when its last copy has left that switch, which is known as soon as the
// copies' departures are. A packet without credit at its start time waits, and the port wakes up
// when credits return.
//
// A waiting packet keeps its room in its own switch, so blocking spreads towards the senders and
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

/// A copy that waits for credits of its link.
struct CreditWaiter {
  TrainPart part;
  Picoseconds ready;
  std::uint32_t hold = 0;
  std::uint32_t next = 0;
};

class LinkCredits {
 public:
  /// Returning credits: `count` times `bytes`, from `time` on at intervals of `spacing`.
  struct Release {
    Picoseconds time;
    Picoseconds spacing;
    std::uint32_t bytes = 0;
    std::uint32_t count = 0;
  };

  /// `queue` and `timing` outlive it.
  LinkCredits(EventQueue& queue, const Topology& topology, const LinkTiming& timing,
              const FabricSettings& settings);

  /// False in lossy mode, in which no other function may be called but waits() and bytes().
  bool enabled() const { return !credits_.empty(); }
  /// Whether packets wait at the port of a link.
  bool waits(LinkId link) const {
    return !credits_.empty() && credits_[index(link)].first_waiter != 0;
  }
  /// Reclaims the credits that return by `when`, as known now; returns true if `bytes` then have
  /// room.
  bool reclaim(LinkId link, Picoseconds when, std::uint64_t bytes);
  void take(LinkId link, std::uint64_t bytes) { credits_[index(link)].taken_bytes += bytes; }
  /// Returns credits to `link` and wakes its port if it waits for them.
  void release(LinkId link, const Release& room);

  /// Queues a copy of an input at the port of a link.
  void wait(LinkId link, Incoming& in, const TrainPart& part, Picoseconds ready);
  /// Reports that the event `fabric_credit` of a link has come.
  void woken(LinkId link) { credits_[index(link)].wake_at = kForever; }
  /// The first copy that waits at a port: there must be one.
  const CreditWaiter& first_waiter(LinkId link) {
    return waiters_[credits_[index(link)].first_waiter];
  }
  void remove_first_waiter(LinkId link);
  /// Wakes the port when its next credits return.
  void wake_at_next_release(LinkId link);

  /// Whether the input of a waiting copy was injected at this port, so that it occupies no switch.
  bool injected(const CreditWaiter& waiter) { return holds_[waiter.hold].in == kNoLink; }
  /// Reports that a waiting copy has left at `when`; the last one to leave frees the input's room.
  void copy_left(std::uint32_t hold, Picoseconds when, std::uint32_t bytes);
  /// All copies of the input have left or wait: computes when its room is free.
  void finish_input(const Incoming& in, const TrainPart& part, std::uint32_t wire_bytes);

  std::size_t bytes() const;

 private:
  /// The buffer space that a packet occupies in a switch until its last copy has left.
  struct Hold {
    LinkId in = kNoLink;
    std::uint32_t waiting = 0;  ///< copies that wait
    Picoseconds left_at;        ///< departure of the latest copy so far
  };
  /// A link's view of the input buffer at its far end.
  struct Credit {
    std::uint64_t taken_bytes = 0;
    std::vector<Release> releases;  ///< by time, from next_release on
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
  std::vector<Credit> credits_;  ///< by link; empty in lossy mode
  Slab<CreditWaiter> waiters_;   ///< 0 is never used
  Slab<Hold> holds_;             ///< 0 is never used
};

}  // namespace tutti::sim
