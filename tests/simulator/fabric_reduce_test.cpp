// Tests reductions in the network: each destination gets one packet, and each link carries at most
// one packet of a reduction. Together with a multicast Allgather, reductions must reach the
// theoretical speedup over two rings.
#include <gtest/gtest.h>

#include <vector>

#include "fabric_recorder.hpp"
#include "studies/traffic/plan_catalog.hpp"
#include "studies/traffic/traffic_run.hpp"

namespace tutti::sim {
namespace {

Topology two_levels() {
  FatTreeShape shape{.down = {4, 3}, .up = {1, 2}, .parallel = {}, .hosts = 0};
  shape.host_link = shape.trunk = {.bits_per_second = 80'000'000'000, .latency = {}};
  return std::move(Topology::fat_tree(shape).value());
}

/// Reductions on a fabric of 80 Gbit/s in packets of 1000 bytes without other delays, so that a hop
/// takes 100 ns.
struct Reducing {
  explicit Reducing(const Topology& topology)
      : fabric(queue, topology, {.switch_latency = {}}, recorder) {
    std::vector<HostId> members;
    for (std::uint32_t h = 0; h < topology.hosts(); ++h) members.push_back(HostId{h});
    group = fabric.create_group(members).value();
  }
  void contribute(HostId from, HostId to, std::uint64_t reduction, Picoseconds when = {}) {
    fabric.inject(when, from, Packet::contribution(group, to, reduction, 1000, 900));
  }
  void run() {
    Event event;
    while (queue.pop(event)) fabric.handle(event);
  }

  EventQueue queue;
  Recorder recorder;
  Fabric fabric;
  GroupId group{};
};

TEST(FabricReduce, DestinationGetsOnePacketAndEachLinkAtMostOne) {
  const Topology topology = two_levels();
  for (const std::uint32_t destination : {0u, 5u, 11u}) {
    Reducing reducing(topology);
    for (std::uint32_t h = 0; h < 12; ++h) {
      if (h != destination) reducing.contribute(HostId{h}, HostId{destination}, 7);
    }
    reducing.run();
    ASSERT_EQ(reducing.recorder.arrivals.size(), 1u);
    ASSERT_EQ(reducing.recorder.arrivals[destination].size(), 1u);
    // The four hops lead up to the leaf switch, up to the top switch, down to a leaf switch and
    // down to the host.
    EXPECT_EQ(reducing.recorder.arrivals[destination][0].time, nanoseconds(400));
    for (std::uint32_t l = 0; l < topology.links(); ++l) {
      EXPECT_LE(reducing.fabric.tx(LinkId{l}).packets, 1u);
    }
    const FabricCounters& counters = reducing.fabric.counters();
    EXPECT_EQ(counters.injected, 11u);
    EXPECT_EQ(counters.absorbed, 10u);
    EXPECT_EQ(counters.delivered, 1u);
    EXPECT_EQ(counters.in_flight, 0u);
  }
}

TEST(FabricReduce, Reduction_usesTheLinksOfAMulticastInReverse) {
  const Topology topology = two_levels();
  Reducing reducing(topology);
  Reducing casting(topology);
  for (std::uint32_t h = 0; h < 12; ++h) {
    if (h != 5) reducing.contribute(HostId{h}, HostId{5}, 1);
  }
  casting.fabric.inject({}, HostId{5}, Packet::to_group(casting.group, 1000, 900));
  reducing.run();
  casting.run();
  for (std::uint32_t l = 0; l < topology.links(); ++l) {
    EXPECT_EQ(reducing.fabric.tx(LinkId{l}), casting.fabric.tx(topology.reverse(LinkId{l}))) << l;
  }
}

TEST(FabricReduce, LastContribution_determinesTheTimeOfAReduction) {
  const Topology topology = two_levels();
  Reducing reducing(topology);
  for (std::uint32_t h = 1; h < 12; ++h) {
    reducing.contribute(HostId{h}, HostId{0}, 1, h == 7 ? nanoseconds(10'000) : Picoseconds{});
  }
  reducing.run();
  EXPECT_EQ(reducing.recorder.arrivals[0].at(0).time, nanoseconds(10'400));
}

TEST(FabricReduce, ConcurrentReductionsStaySeparate) {
  const Topology topology = two_levels();
  Reducing reducing(topology);
  for (std::uint32_t h = 0; h < 12; ++h) {
    for (std::uint32_t to = 0; to < 12; ++to) {
      // Each destination has three reductions, with the numbers 0, 1 and 2. Reductions with the
      // same number differ only in their destination.
      for (std::uint64_t number = 0; number < 3; ++number) {
        if (h != to) reducing.contribute(HostId{h}, HostId{to}, number);
      }
    }
  }
  reducing.run();
  for (std::uint32_t to = 0; to < 12; ++to) {
    EXPECT_EQ(reducing.recorder.arrivals[to].size(), 3u) << to;
  }
  EXPECT_GT(reducing.fabric.counters().most_open_reductions, 3u);
  EXPECT_EQ(reducing.fabric.counters().in_flight, 0u);
}

TEST(FabricReduce, LostContribution_leavesTheReductionIncomplete) {
  const Topology topology = two_levels();
  EventQueue queue;
  const MessagePlan plan = plan_reduce_scatter_in_network(12, 1000);
  TrafficRun run(queue, plan, place(topology, 12, PlacementKind::packed).value(), {});
  Fabric fabric(queue, topology, {}, run);
  // Loses the first packet of host 3.
  fabric.toggle_loss(topology.host_up(HostId{3}), std::uint64_t{4} << 40);
  ASSERT_TRUE(run.begin(fabric, {}));
  const Status done = run.run();
  ASSERT_FALSE(done);
  EXPECT_NE(done.message().find("1 packets did not arrive"), std::string::npos) << done.message();
}

/// The time of a plan on a fat tree of 64 hosts and two levels of switches.
Picoseconds time_of(const char* name, std::uint32_t ranks, std::uint64_t bytes,
                    const TrafficSettings& settings) {
  FatTreeShape shape{.down = {8, 8}, .up = {1, 8}, .parallel = {}, .hosts = 0};
  shape.host_link = shape.trunk = {.bits_per_second = 56'000'000'000};
  const Topology topology = std::move(Topology::fat_tree(shape).value());
  EventQueue queue;
  const MessagePlan plan = plan_by_name(name, ranks, bytes).value();
  TrafficRun run(queue, plan, place(topology, ranks, PlacementKind::packed).value(), settings);
  Fabric fabric(queue, topology, {}, run);
  EXPECT_TRUE(run.begin(fabric, {}));
  const Status done = run.run();
  EXPECT_TRUE(done) << name << ": " << done.to_string();
  return run.finish_time();
}

TEST(FabricReduce, InNetworkReductionWithAllgather_hasTheTheoreticalSpeedupOverTwoRings) {
  for (const std::uint32_t ranks : {2u, 5u, 8u, 32u, 64u}) {
    const std::uint64_t bytes = 4096 * (2048 / ranks);
    const TrafficSettings settings{.trains = true, .posted_ahead = 4};
    const double rings = to_seconds(time_of("rings_together", ranks, bytes, settings));
    const double offloaded = to_seconds(time_of("offloaded_together", ranks, bytes, settings));
    const double theory = 2 - 2.0 / ranks;
    EXPECT_NEAR(rings / offloaded, theory, theory * 0.03) << ranks;
  }
}

TEST(FabricReduce, TimeOfAPlan_doesNotDependOnTheNumberOfMessagesPostedAhead) {
  for (const NamedPlan& one : plan_catalog()) {
    TrafficSettings settings{.message_overhead = nanoseconds(300)};
    const Picoseconds all = time_of(std::string(one.name).c_str(), 24, 24'000, settings);
    for (const std::uint32_t ahead : {2u, 7u}) {
      settings.posted_ahead = ahead;
      EXPECT_EQ(time_of(std::string(one.name).c_str(), 24, 24'000, settings), all) << one.name;
    }
  }
}

TEST(FabricReduce, EveryPlanOfTheCatalogue_hasAUniqueName) {
  for (const NamedPlan& one : plan_catalog()) {
    EXPECT_EQ(plan_by_name(one.name, 8, 800)->ranks(), 8u);
    EXPECT_EQ(std::count_if(plan_catalog().begin(), plan_catalog().end(),
                            [&](const NamedPlan& other) { return other.name == one.name; }),
              1);
  }
  const auto unknown = plan_by_name("allgather_by_post", 8, 800);
  ASSERT_FALSE(unknown);
  EXPECT_NE(unknown.status().message().find("allgather_ring"), std::string::npos);
}

}  // namespace
}  // namespace tutti::sim
