// Tests single mechanisms of the fabric, with times computed by hand.
#include "sim/fabric/fabric.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>

#include "base/random.hpp"
#include "fabric_recorder.hpp"

namespace tutti::sim {
namespace {

constexpr LinkSpec k80G{.bits_per_second = 80'000'000'000, .latency = nanoseconds(50)};
constexpr Picoseconds kPacket = nanoseconds(100);  // time of 1000 bytes at 80 Gbit/s
constexpr Picoseconds kLatency = nanoseconds(50);
constexpr Picoseconds kSwitch = nanoseconds(200);

FabricSettings lossy(std::uint64_t queue_bytes = 1u << 20) {
  FabricSettings settings;
  settings.flow_control = FlowControl::lossy;
  settings.queue_bytes = queue_bytes;
  return settings;
}

Topology tree(std::uint32_t hosts_per_leaf, std::uint32_t leaves, std::uint32_t spines,
              std::uint32_t parallel = 1) {
  FatTreeShape shape{
      .down = {hosts_per_leaf, leaves}, .up = {1, spines}, .parallel = {1, parallel}};
  shape.host_link = shape.trunk = k80G;
  return std::move(Topology::fat_tree(shape).value());
}

Packet packet_to(std::uint32_t host, std::uint32_t wire_bytes = 1000) {
  return Packet::to_host(HostId{host}, wire_bytes, wire_bytes - 100);
}

TEST(Fabric, TimeOfAPacket_isTheSumOfItsHops) {
  const Topology topology = tree(2, 2, 1);
  Bench bench(topology);
  EXPECT_EQ(bench.fabric.inject(nanoseconds(7), HostId{0}, packet_to(3)), nanoseconds(107));
  EXPECT_EQ(bench.fabric.port_free(HostId{0}), nanoseconds(107));
  bench.run();
  const auto& heard = bench.recorder.arrivals.at(3);
  ASSERT_EQ(heard.size(), 1u);
  EXPECT_EQ(heard[0].time, nanoseconds(7) + 4 * (kPacket + kLatency) + 3 * kSwitch);
  EXPECT_EQ(bench.counters().hops, 4u);
  EXPECT_EQ(bench.tx(topology.host_up(HostId{0})), (TrafficCount{1, 1000, 900}));
  EXPECT_EQ(bench.fabric.rx(topology.host_down(HostId{3})), (TrafficCount{1, 1000, 900}));
  EXPECT_EQ(bench.fabric.class_total(LinkClass::up1).packets, 1u);
}

TEST(Fabric, CutThroughForwarding_addsThePacketTimeOnlyOncePerPath) {
  const Topology topology = tree(2, 2, 1);
  FabricSettings settings;
  settings.forwarding = Forwarding::cut_through;
  Bench bench(topology, settings);
  bench.fabric.inject({}, HostId{0}, packet_to(3));
  bench.run();
  const Picoseconds lead = WireSpeed(k80G.bits_per_second).time_of(64);
  EXPECT_EQ(bench.recorder.arrivals.at(3)[0].time, kPacket + 3 * (lead + kSwitch) + 4 * kLatency);
}

TEST(Fabric, CutThroughIntoAFasterLink_waitsForTheTailOfThePacket) {
  const Topology topology = std::move(Topology::parse("link 80Gbit/s 50ns\n"
                                                      "switch a b\nhosts a 1\nhosts b 1\n"
                                                      "link 800Gbit/s 50ns\ncable a b\n")
                                          .value());
  FabricSettings settings;
  settings.forwarding = Forwarding::cut_through;
  Bench bench(topology, settings);
  bench.fabric.inject({}, HostId{0}, packet_to(1));
  bench.run();
  // The trunk is faster than the link before it, so the trunk sends the last bit of the packet as
  // soon as that bit has arrived. The link to the receiver starts once its switch has the first 64
  // bytes.
  const Picoseconds tail_at_b = kPacket + kLatency + kSwitch + kLatency;
  const Picoseconds lead = WireSpeed(800'000'000'000).time_of(64);
  const Picoseconds head_at_b = tail_at_b - nanoseconds(10) + lead;
  EXPECT_EQ(bench.recorder.arrivals.at(1)[0].time, head_at_b + kSwitch + kPacket + kLatency);
}

TEST(Fabric, Ports_sendInOrderOfArrival_andCountTheirQueuedBytes) {
  const Topology topology = tree(4, 1, 1);
  Bench bench(topology, lossy());
  for (std::uint32_t host : {0u, 1u, 2u}) bench.fabric.inject({}, HostId{host}, packet_to(3));
  const Picoseconds ready = kPacket + kLatency + kSwitch;
  bench.run_until(kPacket + kLatency);
  EXPECT_EQ(bench.fabric.queue_depth_bytes(topology.host_down(HostId{3}), ready), 3000u);
  EXPECT_EQ(bench.fabric.queue_depth_bytes(topology.host_down(HostId{3}), ready + kPacket / 2),
            2500u);
  bench.run();
  const auto& heard = bench.recorder.arrivals.at(3);
  ASSERT_EQ(heard.size(), 3u);
  for (std::uint32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(heard[i].time, ready + kPacket * (i + 1) + kLatency);
    EXPECT_EQ(heard[i].name >> 40, i + 1)
        << "simultaneous packets must be ordered by link, and so by host";
  }
}

TEST(Fabric, FullQueue_dropsArrivingPackets_inLossyModeOnly) {
  const Topology topology = tree(4, 1, 1);
  for (const bool drops : {true, false}) {
    FabricSettings settings = lossy(2000);
    if (!drops) settings.flow_control = FlowControl::lossless;
    settings.credit_bytes = 2000;
    Bench bench(topology, settings);
    for (int i = 0; i < 5; ++i) {
      for (std::uint32_t host : {0u, 1u, 2u}) bench.fabric.inject({}, HostId{host}, packet_to(3));
    }
    bench.run();
    EXPECT_EQ(bench.counters().delivered + bench.counters().dropped, 15u);
    EXPECT_EQ(bench.counters().dropped, bench.recorder.drops.size());
    EXPECT_EQ(bench.counters().in_flight, 0u);
    if (drops) {
      EXPECT_GT(bench.counters().dropped, 5u);
      EXPECT_EQ(std::get<0>(bench.recorder.drops[0]), index(topology.host_down(HostId{3})));
      EXPECT_EQ(std::get<2>(bench.recorder.drops[0]), static_cast<int>(DropReason::queue_full));
    } else {
      EXPECT_EQ(bench.counters().dropped, 0u);
      EXPECT_GT(bench.counters().blocked, 0u);
    }
  }
}

TEST(Fabric, HostIsNotifiedWhenABlockedPacketLeaves) {
  const Topology topology = tree(4, 1, 1);
  FabricSettings settings;
  settings.credit_bytes = 1000;
  Bench bench(topology, settings);
  bench.fabric.pause(topology.host_down(HostId{3}), microseconds(10));
  Packet first = packet_to(3);
  first.identity = 1;
  Packet second = packet_to(3);
  second.identity = 2;
  EXPECT_EQ(bench.fabric.inject({}, HostId{0}, first), kPacket);
  EXPECT_EQ(bench.fabric.inject({}, HostId{0}, second), kForever);
  EXPECT_EQ(bench.fabric.port_free(HostId{0}), kForever);
  bench.run();
  // The paused port of the switch sends the first packet after the pause. The credit of that packet
  // returns to the host one link latency later, and only then does the second packet leave.
  ASSERT_EQ(bench.recorder.departures.size(), 1u);
  EXPECT_EQ(bench.recorder.departures[0].second, 2u);
  EXPECT_EQ(bench.recorder.departures[0].first, microseconds(10) + kPacket + kLatency + kPacket);
  EXPECT_EQ(bench.recorder.arrivals.at(3).size(), 2u);
  EXPECT_EQ(bench.fabric.port_free(HostId{0}), bench.recorder.departures[0].first);
}

/// Sends three flows to one host, which is slow if `congested`, and a victim flow that shares only
/// the trunk with them. Returns when the victim flow ends.
Picoseconds victim_done(const FabricSettings& settings, bool congested) {
  const Topology topology = tree(5, 2, 1);
  Bench bench(topology, settings);
  if (congested) bench.fabric.pause(topology.host_down(HostId{5}), microseconds(100));
  std::vector<Bench::Injection> injections;
  for (int i = 0; i < 40; ++i) {  // the trunk is busy for four fifths of the time
    for (std::uint32_t host : {0u, 1u, 2u}) {
      injections.push_back({kPacket * 5 * i, HostId{host}, packet_to(5)});
    }
    injections.push_back({kPacket * 5 * i, HostId{3}, packet_to(6)});
  }
  bench.run(injections);
  EXPECT_EQ(bench.recorder.arrivals.at(6).size(), 40u);
  return bench.recorder.arrivals.at(6).back().time;
}

TEST(Fabric, Backpressure_delaysAnUnrelatedFlow_andDroppingDoesNot) {
  FabricSettings credits;
  credits.credit_bytes = 8000;
  EXPECT_LT(victim_done(credits, false), microseconds(30));
  EXPECT_GT(victim_done(credits, true), microseconds(100))
      << "the victim must wait behind the packets to the slow host";
  EXPECT_LT(victim_done(lossy(8000), true), microseconds(30));
}

TEST(Fabric, Ecmp_keepsAFlowInOrder_andAdaptiveRoutingDoesNot) {
  const Topology topology = tree(8, 4, 4);
  for (const Routing routing : {Routing::ecmp, Routing::adaptive, Routing::destination}) {
    FabricSettings settings;
    settings.routing = routing;
    Bench bench(topology, settings);
    std::set<std::uint32_t> ups;
    Random random(1);
    for (int i = 0; i < 60; ++i) {
      for (std::uint32_t host = 0; host < 24; ++host) {
        Packet packet = packet_to(31, 200 + static_cast<std::uint32_t>(random.below(1800)));
        packet.flow = host;
        bench.fabric.inject({}, HostId{host}, packet);
      }
    }
    bench.run();
    bool in_order = true;
    std::map<std::uint64_t, std::uint64_t> last;
    for (const Heard& heard : bench.recorder.arrivals.at(31)) {
      std::uint64_t& before = last[heard.name >> 40];
      in_order = in_order && heard.name > before;
      before = heard.name;
    }
    EXPECT_EQ(in_order, routing != Routing::adaptive);
    for (const LinkId link : topology.trunks(SwitchId{0})) {
      if (bench.tx(link).packets > 0) ups.insert(index(link));
    }
    if (routing == Routing::destination) {
      EXPECT_EQ(ups.size(), 1u);
    } else {
      EXPECT_GE(ups.size(), routing == Routing::ecmp ? 2u : 4u);
    }
  }
}

TEST(Fabric, AdaptiveRouting_spreadsFlowsThatCollideUnderEcmp) {
  const Topology topology = tree(8, 2, 8);
  const auto finish = [&](Routing routing) {
    FabricSettings settings;
    settings.routing = routing;
    Bench bench(topology, settings);
    for (int i = 0; i < 50; ++i) {
      for (std::uint32_t host = 0; host < 8; ++host) {
        bench.fabric.inject({}, HostId{host}, packet_to(8 + host));
      }
    }
    bench.run();
    Picoseconds last{};
    for (const auto& [host, heard] : bench.recorder.arrivals)
      last = std::max(last, heard.back().time);
    return last;
  };
  EXPECT_LT(finish(Routing::adaptive), kPacket * 65);
  EXPECT_GT(finish(Routing::ecmp), kPacket * 90) << "ECMP must put two flows on one link";
  EXPECT_LT(finish(Routing::destination), kPacket * 65)
      << "a shift pattern has a link for each flow";
}

TEST(Fabric, MulticastReachesEveryOtherMemberOnce) {
  const std::vector<Topology> topologies = [] {
    std::vector<Topology> all;
    all.push_back(Topology::cluster188());
    all.push_back(std::move(Topology::fat_tree(8, 3).value()));
    all.push_back(std::move(Topology::fat_tree(6, 4).value()));
    all.push_back(Topology::single_switch(70));
    all.push_back(std::move(
        Topology::parse("dragonfly+ groups 5 leaves 3 spines 2 hosts 3 ports 2").value()));
    return all;
  }();
  for (const Topology& topology : topologies) {
    Random random(9);
    Bench bench(topology);
    for (int round = 0; round < 30; ++round) {
      std::vector<HostId> members =
          place(topology, topology.hosts(), PlacementKind::random, random.next()).value();
      members.resize(1 + random.below(topology.hosts()));
      const TreeChoice tree{static_cast<std::uint32_t>(random.below(bench.fabric.trees()))};
      const auto group = bench.fabric.create_group(members, tree);
      ASSERT_TRUE(group) << group.status().to_string();
      const HostId source = members[random.below(members.size())];
      bench.recorder.arrivals.clear();
      const std::uint64_t hops = bench.counters().hops;
      bench.fabric.inject(bench.queue.now(), source, Packet::to_group(*group, 500, 400));
      bench.run();
      std::set<std::uint32_t> reached;
      for (const auto& [host, heard] : bench.recorder.arrivals) {
        EXPECT_EQ(heard.size(), 1u);
        reached.insert(host);
      }
      std::set<std::uint32_t> expected;
      for (const HostId member : members) {
        if (member != source) expected.insert(index(member));
      }
      EXPECT_EQ(reached, expected);
      EXPECT_EQ(bench.counters().in_flight, 0u);
      // The packet crosses each link of the tree at most once.
      EXPECT_LE(bench.counters().hops - hops, expected.size() + 2 * topology.switches());
    }
    for (std::uint32_t link = 0; link < topology.links(); ++link) {
      EXPECT_EQ(bench.tx(LinkId{link}), bench.fabric.rx(LinkId{link}));
    }
  }
}

TEST(Fabric, MulticastTree_hasTheChosenTopSwitch) {
  const Topology topology = Topology::cluster188();
  const std::vector<HostId> members = place(topology, 188, PlacementKind::even_blocks).value();
  std::set<std::uint32_t> tops;
  for (std::uint32_t tree = 0; tree < 6; ++tree) {
    Bench bench(topology);
    EXPECT_EQ(bench.fabric.trees(), 6u);
    const GroupId group = bench.fabric.create_group(members, {tree}).value();
    bench.fabric.inject({}, members[0], Packet::to_group(group, 100, 100));
    bench.run();
    for (std::uint32_t i = 0; i < topology.links(); ++i) {
      const Link& link = topology.link(LinkId{i});
      if (link.link_class == LinkClass::up1 && bench.tx(LinkId{i}).packets > 0)
        tops.insert(link.to);
    }
    EXPECT_EQ(tops.size(), tree + 1) << "each tree must go up one link, to a spine of its own";
    EXPECT_EQ(bench.fabric.class_total(LinkClass::down1).packets, 11u);
  }
}

TEST(Fabric, ImpossibleMulticastGroupsAreRefused) {
  const Topology topology = tree(2, 2, 1);
  Bench bench(topology);
  const auto error = [&](std::vector<HostId> members) {
    return bench.fabric.create_group(members).status().message();
  };
  EXPECT_NE(error({}).find("a multicast group has no members"), std::string::npos);
  EXPECT_NE(error({HostId{1}, HostId{1}}).find("host 1 is named twice"), std::string::npos);
  EXPECT_NE(error({HostId{4}}).find("host 4 of a multicast group does not exist: use hosts 0 to 3"),
            std::string::npos);
}

TEST(Fabric, LossToggledForOnePacket_losesThatPacket_andAffectsNoOther) {
  const Topology topology = tree(4, 2, 1);
  const auto run = [&](bool toggle, Recorder& result) {
    Bench bench(topology, lossy());
    bench.fabric.set_loss(LinkClass::up1, 0.2);
    if (toggle) bench.fabric.toggle_loss(topology.host_up(HostId{1}), 1007);
    for (std::uint32_t i = 0; i < 50; ++i) {
      for (std::uint32_t host = 0; host < 4; ++host) {
        Packet packet = packet_to(4 + host);
        packet.identity = 1000 * host + i;
        bench.fabric.inject(microseconds(i), HostId{host}, packet);
      }
    }
    bench.run();
    result = bench.recorder;
    result.sort();
  };
  Recorder plain;
  Recorder toggled;
  run(false, plain);
  run(true, toggled);
  EXPECT_GT(plain.drops.size(), 20u);
  EXPECT_LT(plain.drops.size(), 60u);
  std::set<std::uint64_t> lost_before;
  for (const auto& [link, name, reason] : plain.drops) lost_before.insert(name);
  std::set<std::uint64_t> lost_after;
  for (const auto& [link, name, reason] : toggled.drops) lost_after.insert(name);
  lost_before.insert(1007);
  EXPECT_EQ(lost_after, lost_before);
}

TEST(Fabric, ChanceOfABitError_growsWithThePacketSize) {
  LinkSpec noisy = k80G;
  noisy.bit_error_rate = 1e-5;
  const Topology topology = Topology::single_switch(2, noisy);
  const auto lost = [&](std::uint32_t bytes) {
    Bench bench(topology);
    for (int i = 0; i < 20'000; ++i) bench.fabric.inject({}, HostId{0}, packet_to(1, bytes));
    bench.run();
    EXPECT_EQ(bench.counters().in_flight, 0u);
    EXPECT_EQ(bench.tx(topology.host_up(HostId{0})).packets, 20'000u);
    EXPECT_EQ(bench.fabric.rx(topology.host_down(HostId{1})).packets, bench.counters().delivered);
    return static_cast<double>(bench.counters().dropped) / 20'000;
  };
  EXPECT_NEAR(lost(125), 1 - std::pow(1 - 1e-5, 2 * 1000), 0.003);
  EXPECT_NEAR(lost(1250), 1 - std::pow(1 - 1e-5, 2 * 10'000), 0.01);
}

TEST(Fabric, LinkThatIsDown_isAvoided_orDropsPacketsIfThereIsNoOtherPath) {
  const Topology topology = tree(2, 2, 2);
  Bench bench(topology);
  const NextLinks ups = topology.next(SwitchId{0}, HostId{3});
  ASSERT_EQ(ups.size(), 2u);
  bench.fabric.set_link(ups[0], false);
  for (std::uint32_t flow = 0; flow < 20; ++flow) {
    Packet packet = packet_to(3);
    packet.flow = flow;
    bench.fabric.inject({}, HostId{0}, packet);
  }
  bench.run();
  EXPECT_EQ(bench.recorder.arrivals.at(3).size(), 20u);
  EXPECT_EQ(bench.tx(ups[0]).packets, 0u);
  bench.fabric.set_link(ups[1], false);
  bench.fabric.inject(bench.queue.now(), HostId{0}, packet_to(3));
  bench.run();
  EXPECT_EQ(bench.counters().dropped, 1u);
  EXPECT_EQ(std::get<2>(bench.recorder.drops.at(0)), static_cast<int>(DropReason::link_down));
  bench.fabric.set_link(ups[0], true);
  bench.fabric.inject(bench.queue.now(), HostId{0}, packet_to(3));
  bench.run();
  EXPECT_EQ(bench.recorder.arrivals.at(3).size(), 21u);
}

TEST(Fabric, PausedPort_delaysPacketsUntilThePauseEnds) {
  const Topology topology = tree(2, 1, 1);
  Bench bench(topology);
  bench.fabric.pause(topology.host_up(HostId{0}), microseconds(5));
  EXPECT_EQ(bench.fabric.inject({}, HostId{0}, packet_to(1)), microseconds(5) + kPacket);
}

TEST(Fabric, StateOfAPort_takesOneCacheLineOfMemory) {
  const Topology topology = std::move(
      Topology::fat_tree({.down = {32, 32, 16}, .up = {1, 32, 32}, .parallel = {}}).value());
  Bench bench(topology, lossy());
  EXPECT_LE(static_cast<double>(bench.fabric.memory_bytes()) / topology.links(), 68.0);
}

}  // namespace
}  // namespace tutti::sim
