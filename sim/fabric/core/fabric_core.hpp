// Internal to the fabric: ports, packets in flight, groups and credits.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/random.hpp"
#include "sim/fabric/fabric_types.hpp"
#include "sim/fabric/huge_pages.hpp"

namespace tutti::sim {

/// One direction of a cable: when it is free again, and its counters.
struct alignas(64) FabricPort {
  Picoseconds busy_until{};
  Picoseconds train_until{-1};  ///< instant at which the last packet of a train is ready
  TrafficCount tx;
  TrafficCount rx;
};
static_assert(sizeof(FabricPort) == 64);

/// Storage that reuses freed entries, the last freed first.
template <typename Entry>
class Slab {
 public:
  std::uint32_t take() {
    if (free_.empty()) {
      entries_.emplace_back();
      return static_cast<std::uint32_t>(entries_.size() - 1);
    }
    const std::uint32_t taken = free_.back();
    free_.pop_back();
    return taken;
  }
  void give_back(std::uint32_t place) { free_.push_back(place); }
  Entry& operator[](std::uint32_t place) { return entries_[place]; }
  std::size_t bytes() const { return entries_.capacity() * sizeof(Entry); }

 private:
  std::vector<Entry, HugePages<Entry>> entries_;
  std::vector<std::uint32_t> free_;
};

/// Consecutive packets of a train at one place: the subject of one event.
struct TrainPart {
  std::uint32_t flight = 0;  ///< slot of the packet
  std::uint16_t first = 0;
  std::uint16_t count = 1;

  std::uint64_t pack() const {
    return std::uint64_t{flight} << 32 | std::uint64_t{first} << 16 | count;
  }
  static TrainPart unpack(std::uint64_t argument) {
    return {static_cast<std::uint32_t>(argument >> 32), static_cast<std::uint16_t>(argument >> 16),
            static_cast<std::uint16_t>(argument)};
  }
};

class FabricCore {
 public:
  FabricCore(EventQueue& queue, const Topology& topology, const FabricSettings& settings,
             Sink& sink);

  Result<GroupId> create_group(std::span<const HostId> members, TreeChoice choice);
  Picoseconds inject(Picoseconds now, HostId from, const Packet& packet);
  Picoseconds port_free(HostId host);
  void handle(const Event& event);
  void observe_ports(PortObserver* observer) { observer_ = observer; }

  TrafficCount tx(LinkId link) const { return counted(link, false); }
  TrafficCount rx(LinkId link) const { return counted(link, true); }
  Picoseconds busy_until(LinkId link) const;
  void set_loss(LinkClass link_class, double probability);
  void toggle_loss(LinkId link, std::uint64_t identity);
  void set_link(LinkId link, bool up);
  void pause(LinkId link, Picoseconds until);

  const Topology& topology() const { return topology_; }
  const FabricSettings& settings() const { return settings_; }
  const FabricCounters& counters() const { return counters_; }
  std::uint32_t trees() const { return static_cast<std::uint32_t>(tree_roots_.size()); }
  WireSpeed speed(LinkId link) const { return speeds_[topology_.link(link).spec]; }
  std::size_t memory_bytes() const;

 private:
  /// A packet or train in flight, shared by all copies of a multicast.
  struct Flight {
    Packet packet;
    std::uint32_t references = 0;
  };
  /// A tree: the links of each switch to other switches, and the member hosts of each leaf slice.
  struct Group {
    std::vector<std::uint32_t> first_links;
    std::vector<LinkId> links;
    std::vector<std::uint64_t> hosts;
    /// For each leaf of a reduction's destination, created on demand: the link of each tree switch
    /// towards that leaf.
    std::vector<std::vector<LinkId>> towards;
  };
  /// A sum that a switch has not completed.
  struct OpenSum {
    std::uint32_t missing = 0;  ///< contributions still missing
    Picoseconds ready{};
    Picoseconds tail{};
  };
  struct SumName {
    std::uint64_t cookie = 0;
    std::uint64_t place = 0;  ///< key of switch and destination

    friend bool operator==(const SumName&, const SumName&) = default;
  };
  struct SumNameHash {
    std::size_t operator()(const SumName& name) const { return mix(name.cookie ^ mix(name.place)); }
  };
  /// Up to 64 hosts of a leaf. All ports in `followers` share `busy_until` and `train_until`, and
  /// the slice's counts add to each port's own.
  struct Slice {
    std::uint32_t first_host = 0;
    std::uint64_t followers = 0;
    FabricPort common;
  };
  /// The subject of a leaf event.
  struct LeafRun {
    TrainPart part;
    std::uint32_t slice = 0;
    std::uint64_t hosts = 0;
  };
  /// Returning credits: `count` times `bytes`, from `time` on at intervals of `spacing`.
  struct Release {
    Picoseconds time;
    Picoseconds spacing;
    std::uint32_t bytes = 0;
    std::uint32_t count = 0;
  };
  /// A copy that waits for credits of its link.
  struct Waiter {
    TrainPart part;
    Picoseconds ready;
    std::uint32_t hold = 0;
    std::uint32_t next = 0;
  };
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
  /// The arrival of a part at the place that forwards it.
  struct Incoming {
    LinkId link = kNoLink;       ///< kNoLink if injected
    Picoseconds ready;           ///< the first packet may start
    Picoseconds spacing;         ///< time between packets becoming ready
    Picoseconds tail;            ///< the last bit of the first packet has arrived
    Picoseconds left_at{};       ///< out: the last bit of the last copy has left
    Picoseconds left_spacing{};  ///< out: time between the departures of a train's packets
    std::uint32_t hold = 0;      ///< out: set if a copy waits
  };

  // Forwarding (fabric_core_forward.cpp).
  void arrive(const Event& event);
  void deliver(const Event& event, const TrainPart& part, LinkId link);
  void forward(SwitchId at, Incoming& in, const TrainPart& part);
  void forward_multicast(SwitchId at, Incoming& in, const TrainPart& part);
  void forward_contribution(SwitchId at, Incoming& in, const TrainPart& part);
  LinkId choose(const NextLinks& next, SwitchId at, const Packet& packet, std::uint32_t first,
                Picoseconds ready);
  bool goes_as_one(SwitchId at, const Incoming& in, const TrainPart& part);
  bool fits_as_one(LinkId link, const Incoming& in, const TrainPart& part);
  void send(LinkId link, Incoming& in, const TrainPart& part);
  void start(LinkId link, Picoseconds start, const TrainPart& part);
  void push_arrival(LinkId link, Picoseconds start, const TrainPart& part);
  void drop(LinkId link, Picoseconds when, const TrainPart& part, DropReason reason);
  void unreference(std::uint32_t flight, std::uint32_t references = 1);
  Picoseconds packet_time(LinkId link, const Packet& packet) const {
    return std::max(speed(link).time_of(packet.wire_bytes), picoseconds(1));
  }
  /// From the start of a packet until its receiver may process it.
  Picoseconds take_up_time(LinkId link, const Packet& packet) const;

  // Loss (fabric_core_faults.cpp).
  bool lost(LinkId link, const Packet& packet, std::uint32_t i);
  void send_with_loss(LinkId link, Picoseconds start, const TrainPart& part);
  std::uint64_t loss_threshold(LinkId link, std::uint32_t wire_bytes);
  bool is_down(LinkId link) const { return !down_.empty() && down_.contains(index(link)); }

  // Credits (fabric_core_credit.cpp).
  bool has_credit(LinkId link, Picoseconds when, std::uint64_t bytes);
  void wait_for_credit(LinkId link, Incoming& in, const TrainPart& part);
  void release(LinkId link, const Release& room);
  void insert_release(Credit& credit, const Release& room);
  void wake(LinkId link);
  void wake_at(LinkId link, Picoseconds when);
  void copy_left(std::uint32_t hold, Picoseconds when, std::uint32_t bytes);
  void finish_input(const Incoming& in, const TrainPart& part);
  bool waits(LinkId link) const {
    return !credits_.empty() && credits_[index(link)].first_waiter != 0;
  }

  // Leaves (fabric_core_leaf.cpp).
  void send_to_leaf(std::uint32_t slice, std::uint64_t hosts, Incoming& in, const TrainPart& part);
  void send_in_common(std::uint32_t slice, Incoming& in, const TrainPart& part);
  void arrive_at_leaf(const Event& event);
  void leave(Slice& slice, std::uint64_t ports);
  void join(Slice& slice, std::uint32_t bit);
  void leave_slice(LinkId link);
  std::uint32_t slice_of(HostId host) const {
    const SwitchId leaf = topology_.leaf_of(host);
    return first_slices_[tutti::sim::index(leaf)] +
           (tutti::sim::index(host) - tutti::sim::index(topology_.first_host(leaf))) / 64;
  }
  TrafficCount counted(LinkId link, bool received) const;

  // Trees (fabric_core_group.cpp).
  Status add_members(std::span<const HostId> members, Group& group,
                     std::vector<bool>& needed) const;
  void grow_tree(std::uint32_t root, std::vector<LinkId>& to_parent,
                 std::vector<std::uint32_t>& order) const;

  // Reductions (fabric_core_reduce.cpp).
  const std::vector<LinkId>& towards(std::uint32_t group, HostId destination);
  std::uint32_t contributions_at(SwitchId at, const Packet& packet, LinkId towards_destination);

  EventQueue& queue_;
  const Topology& topology_;
  const FabricSettings settings_;
  Sink& sink_;
  const std::uint64_t hash_seed_;
  std::vector<FabricPort, HugePages<FabricPort>> ports_;
  std::vector<WireSpeed> speeds_;         ///< by LinkSpec
  std::vector<Picoseconds> latencies_;    ///< by LinkSpec
  std::vector<Picoseconds> queue_times_;  ///< lossy: by LinkSpec, how long a full queue takes
  Slab<Flight> flights_;
  std::vector<std::uint64_t> sent_by_host_;
  FabricCounters counters_;
  PortObserver* observer_ = nullptr;

  std::vector<Group> groups_;
  std::unordered_map<SumName, OpenSum, SumNameHash> reductions_;
  std::vector<SwitchId> tree_roots_;
  std::vector<Slice> slices_;
  std::vector<std::uint32_t> first_slices_;  ///< by leaf, and the end
  Slab<LeafRun> leaf_runs_;

  std::vector<Credit> credits_;  ///< by link; empty in lossy mode
  Slab<Waiter> waiters_;         ///< 0 is never used
  Slab<Hold> holds_;             ///< 0 is never used

  struct LossCache {
    std::uint32_t wire_bytes = 0;
    std::uint64_t threshold = 0;
  };
  bool any_loss_ = false;
  std::array<double, kLinkClasses> class_loss_{};
  std::vector<LossCache> loss_cache_;  ///< by spec and class
  std::unordered_set<std::uint64_t> toggled_;
  std::unordered_set<std::uint32_t> down_;
};

}  // namespace tutti::sim
