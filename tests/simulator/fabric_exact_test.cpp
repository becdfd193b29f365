// Tests that optimisations of the fabric change no simulated time. The optimisations are events
// shared by the hosts of a leaf switch, trains of packets, and link credits. The tests compare each
// of them with a simpler method under random loads.
#include <gtest/gtest.h>

#include <deque>
#include <numeric>

#include "base/random.hpp"
#include "fabric_recorder.hpp"

namespace tutti::sim {
namespace {

using Injection = Bench::Injection;

/// A load of random packets at random times, to single hosts and to random groups.
struct Load {
  std::vector<std::vector<HostId>> groups;
  std::vector<Injection> injections;
  std::vector<std::pair<LinkId, Picoseconds>> pauses;
};

Load random_load(const Topology& topology, Random& random, std::uint32_t packets,
                 std::uint64_t span_ns, std::uint16_t longest_train) {
  Load load;
  const auto any_host = [&] {
    return HostId{static_cast<std::uint32_t>(random.below(topology.hosts()))};
  };
  for (int i = 0; i < 3; ++i) {
    std::vector<HostId> members =
        place(topology, topology.hosts(), PlacementKind::random, random.next()).value();
    if (i > 0) members.resize(2 + random.below(topology.hosts() - 2));
    load.groups.push_back(members);
  }
  for (std::uint32_t i = 0; i < packets; ++i) {
    const auto wire = static_cast<std::uint32_t>(100 + random.below(2000));
    Packet packet = Packet::to_host(any_host(), wire, wire - 50);
    HostId from = any_host();
    if (random.chance_ppm(500'000)) {
      const auto g = static_cast<std::uint32_t>(random.below(load.groups.size()));
      packet = Packet::to_group(GroupId{g}, wire, wire - 50);
      from = load.groups[g][random.below(load.groups[g].size())];
    }
    packet.flow = static_cast<std::uint32_t>(random.below(5));
    packet.identity = (i + 1) * 1'000'000;
    packet.count = static_cast<std::uint16_t>(1 + random.below(longest_train));
    load.injections.push_back(
        {picoseconds(static_cast<std::int64_t>(random.below(span_ns * 1000))), from, packet});
  }
  std::stable_sort(load.injections.begin(), load.injections.end(),
                   [](const Injection& a, const Injection& b) { return a.time < b.time; });
  if (random.chance_ppm(300'000)) {
    load.pauses.emplace_back(topology.host_down(any_host()), nanoseconds(3000));
  }
  return load;
}

/// The result of a run: its events, counters and digest.
struct Seen {
  Recorder recorder;
  FabricCounters counters;
  std::vector<TrafficCount> tx;
  std::vector<TrafficCount> rx;
  std::vector<std::uint64_t> lost;
  std::uint64_t digest = 0;
};

Seen run(const Topology& topology, const FabricSettings& settings, const Load& load,
         double loss = 0, bool split_trains = false) {
  Bench bench(topology, settings);
  for (const auto& members : load.groups) EXPECT_TRUE(bench.fabric.create_group(members));
  if (loss > 0) {
    bench.fabric.set_loss(LinkClass::host_down, loss);
    bench.fabric.set_loss(LinkClass::up1, loss);
  }
  for (const auto& [link, until] : load.pauses) bench.fabric.pause(link, until);
  std::vector<Injection> injections;
  for (const Injection& one : load.injections) {
    if (!split_trains) {
      injections.push_back(one);
      continue;
    }
    for (std::uint16_t i = 0; i < one.packet.count; ++i) {
      injections.push_back(one);
      injections.back().packet.count = 1;
      injections.back().packet.identity += i;
    }
  }
  bench.run(injections);
  Seen seen{bench.recorder, bench.counters(), {}, {}, {}, bench.queue.digest()};
  seen.recorder.sort();
  for (std::uint32_t link = 0; link < topology.links(); ++link) {
    seen.tx.push_back(bench.tx(LinkId{link}));
    seen.rx.push_back(bench.fabric.rx(LinkId{link}));
    seen.lost.push_back(bench.fabric.lost(LinkId{link}));
  }
  return seen;
}

void expect_same(const Seen& a, const Seen& b, std::uint64_t seed) {
  EXPECT_EQ(a.recorder.arrivals, b.recorder.arrivals) << "seed " << seed;
  EXPECT_EQ(a.recorder.drops, b.recorder.drops) << "seed " << seed;
  EXPECT_EQ(a.tx, b.tx) << "seed " << seed;
  EXPECT_EQ(a.rx, b.rx) << "seed " << seed;
  EXPECT_EQ(a.lost, b.lost) << "seed " << seed;
  EXPECT_EQ(a.counters.hops, b.counters.hops) << "seed " << seed;
  EXPECT_EQ(a.counters.in_flight, 0u);
  EXPECT_EQ(b.counters.in_flight, 0u);
}

Topology small_tree(Random& random) {
  const auto number = [&](std::uint32_t most) {
    return 1 + static_cast<std::uint32_t>(random.below(most));
  };
  FatTreeShape shape{.down = {2 + number(6), 1 + number(4), number(3)},
                     .up = {1, number(3), number(2)},
                     .parallel = {1, number(2), 1}};
  shape.host_link = {.bits_per_second = 100'000'000'000, .latency = nanoseconds(30)};
  shape.trunk = shape.host_link;
  constexpr std::uint64_t kTrunks[] = {50'000'000'000, 100'000'000'000, 400'000'000'000};
  shape.trunk.bits_per_second = kTrunks[random.below(3)];
  return std::move(Topology::fat_tree(shape).value());
}

FabricSettings any_settings(Random& random) {
  FabricSettings settings;
  settings.seed = random.next();
  settings.flow_control = random.chance_ppm(500'000) ? FlowControl::lossless : FlowControl::lossy;
  settings.forwarding =
      random.chance_ppm(500'000) ? Forwarding::cut_through : Forwarding::store_and_forward;
  settings.routing = static_cast<Routing>(random.below(3));
  settings.queue_bytes = 3000 + random.below(30'000);
  settings.credit_bytes = 2500 + random.below(20'000);
  settings.switch_latency = nanoseconds(static_cast<std::int64_t>(random.below(300)));
  return settings;
}

TEST(FabricExact, SharingEventsAmongHostsOfALeafSwitch_changesNoTimeAndNoCounter) {
  std::uint64_t shared_events = 0;
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    Random random(seed);
    const Topology topology = small_tree(random);
    FabricSettings settings = any_settings(random);
    const Load load = random_load(topology, random, 250, 1000 + random.below(60'000), 1);
    const double loss = seed % 3 == 0 ? 0.05 : 0;
    settings.leaf_groups = true;
    const Seen grouped = run(topology, settings, load, loss);
    settings.leaf_groups = false;
    const Seen alone = run(topology, settings, load, loss);
    expect_same(grouped, alone, seed);
    EXPECT_EQ(alone.counters.leaf_events, 0u);
    shared_events += grouped.counters.leaf_events;
  }
  EXPECT_GT(shared_events, 10'000u) << "the test needs runs with shared leaf events";
}

TEST(FabricExact, PacketTrainsWithoutConflicts_giveTheResultsOfSinglePackets) {
  int equal_runs = 0;
  int conflicts = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    Random random(seed + 1000);
    const Topology topology = small_tree(random);
    FabricSettings settings = any_settings(random);
    settings.leaf_groups = seed % 2 == 0;
    const Load load = random_load(topology, random, 20, 1000 + random.below(400'000), 40);
    const double loss = seed % 5 == 0 ? 0.02 : 0;
    const Seen trains = run(topology, settings, load, loss);
    const Seen packets = run(topology, settings, load, loss, true);
    if (trains.counters.train_conflicts > 0) {
      ++conflicts;
      EXPECT_EQ(trains.counters.in_flight, 0u);
      continue;
    }
    ++equal_runs;
    expect_same(trains, packets, seed);
  }
  EXPECT_GT(equal_runs, 60);
  EXPECT_GT(conflicts, 30) << "the test needs runs with train conflicts";
}

TEST(FabricExact, SameSeedGivesTheSameDigest) {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    const auto digest = [&] {
      Random random(seed);
      const Topology topology = small_tree(random);
      const FabricSettings settings = any_settings(random);
      const Load load = random_load(topology, random, 200, 20'000, 6);
      return run(topology, settings, load, 0.01).digest;
    };
    EXPECT_EQ(digest(), digest());
  }
}

TEST(FabricExact, FabricWithAmpleCredits_equalsOneWithEndlessQueues) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    Random random(seed);
    const Topology topology = small_tree(random);
    FabricSettings settings = any_settings(random);
    settings.queue_bytes = settings.credit_bytes = 1u << 30;
    const Load load = random_load(topology, random, 300, 20'000, 1);
    settings.flow_control = FlowControl::lossless;
    const Seen credits = run(topology, settings, load);
    settings.flow_control = FlowControl::lossy;
    expect_same(credits, run(topology, settings, load), seed);
    EXPECT_EQ(credits.counters.blocked, 0u);
  }
}

TEST(FabricExact, LosslessFabricNeitherDropsNorDeadlocks) {
  std::uint64_t blocked = 0;
  for (std::uint64_t seed = 0; seed < 80; ++seed) {
    Random random(seed + 77);
    const Topology topology = small_tree(random);
    FabricSettings settings = any_settings(random);
    settings.flow_control = FlowControl::lossless;
    // The credits of a link range from less than one packet to a few packets. An empty input buffer
    // admits a packet in any case.
    settings.credit_bytes = random.below(6000);
    Load load = random_load(topology, random, 400, 4000, 3);
    const std::size_t once = load.injections.size();
    for (std::size_t i = 0; i < once; ++i) {  // the same packets once more, after the first wave
      load.injections.push_back(load.injections[i]);
      load.injections.back().time += milliseconds(10);
      load.injections.back().packet.identity += 500'000'000'000;
    }
    const Seen seen = run(topology, settings, load);
    EXPECT_EQ(seen.counters.dropped, 0u);
    EXPECT_EQ(seen.counters.in_flight, 0u) << "packets are stuck, seed " << seed;
    EXPECT_EQ(seen.tx, seen.rx);
    blocked += seen.counters.blocked;
    std::size_t expected = 0;
    for (const Injection& one : load.injections) {
      const std::size_t receivers =
          one.packet.multicast ? load.groups[one.packet.target].size() - 1 : 1;
      expected += receivers * one.packet.count;
    }
    EXPECT_EQ(seen.recorder.heard(), expected);
  }
  EXPECT_GT(blocked, 10'000u);
}

TEST(FabricExact, EveryCopyOfAPacket_isDeliveredDroppedOrUnderWay) {
  std::uint64_t dropped_early = 0;
  for (std::uint64_t seed = 0; seed < 80; ++seed) {
    Random random(seed + 5);
    const Topology topology = small_tree(random);
    FabricSettings settings = any_settings(random);
    settings.flow_control = FlowControl::lossy;
    settings.queue_bytes = 3000;
    const Load load = random_load(topology, random, 300, 3000, 4);
    const Seen seen = run(topology, settings, load, 0.03);
    EXPECT_EQ(seen.counters.in_flight, 0u);
    EXPECT_EQ(seen.counters.dropped, seen.recorder.drops.size());
    EXPECT_EQ(seen.counters.delivered, seen.recorder.heard());
    std::vector<std::uint64_t> lost(topology.links());
    for (const auto& [link, name, reason] : seen.recorder.drops) {
      if (reason == static_cast<int>(DropReason::bit_error)) ++lost[link];
    }
    EXPECT_EQ(seen.lost, lost) << "a packet dropped before it starts is not lost on the link";
    const auto total = std::accumulate(lost.begin(), lost.end(), std::uint64_t{0});
    dropped_early += seen.counters.dropped - total;
    for (std::uint32_t link = 0; link < topology.links(); ++link) {
      EXPECT_EQ(seen.tx[link].packets, seen.rx[link].packets + lost[link]) << link;
    }
  }
  EXPECT_GT(dropped_early, 0u) << "no packet found its queue full";
}

/// Compares the times of equal packets along a chain of switches with a recurrence. A packet starts
/// on a link when three conditions hold: it has arrived, the link is free, and the packet that is
/// `room` packets ahead of it has left the next switch.
TEST(FabricExact, PacketTimesWithLinkCredits_equalThoseOfAReferenceRecurrence) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    Random random(seed);
    const std::uint64_t rates[] = {100, 25, 50, 200, 40};
    std::string text =
        "link 100Gbit/s 70ns\nswitch s0 level 1\nswitch s1 s2 level 2\nswitch s3 level 1\n"
        "hosts s0 1\nhosts s3 1\n";
    std::vector<std::uint64_t> gbits{100};
    for (int i = 0; i < 3; ++i) {
      gbits.push_back(rates[random.below(5)]);
      text += "link " + std::to_string(gbits.back()) + "Gbit/s 70ns\ncable s" + std::to_string(i) +
              " s" + std::to_string(i + 1) + "\n";
    }
    gbits.push_back(100);
    const Topology topology = std::move(Topology::parse(text).value());
    const std::uint32_t room = 1 + static_cast<std::uint32_t>(random.below(4));
    const std::uint32_t packets = 40;
    FabricSettings settings;
    settings.credit_bytes = room * 1000 + 500;
    Bench bench(topology, settings);
    const Picoseconds slow_host = nanoseconds(static_cast<std::int64_t>(random.below(20'000)));
    bench.fabric.pause(topology.host_down(HostId{1}), slow_host);
    for (std::uint32_t k = 0; k < packets; ++k) {
      bench.fabric.inject({}, HostId{0}, Packet::to_host(HostId{1}, 1000, 1000));
    }
    bench.run();

    constexpr int kLinks = 5;
    std::vector<std::vector<Picoseconds>> end(kLinks, std::vector<Picoseconds>(packets));
    for (std::uint32_t k = 0; k < packets; ++k) {
      Picoseconds ready{};
      for (int link = 0; link < kLinks; ++link) {
        Picoseconds start = ready;
        if (link == kLinks - 1) start = std::max(start, slow_host);
        if (k > 0) start = std::max(start, end[link][k - 1]);
        if (link + 1 < kLinks && k >= room) {
          start = std::max(start, end[link + 1][k - room] + nanoseconds(70));
        }
        end[link][k] = start + WireSpeed(gbits[link] * 1'000'000'000).time_of(1000);
        ready = end[link][k] + nanoseconds(70) + settings.switch_latency;
      }
    }
    const auto& heard = bench.recorder.arrivals.at(1);
    ASSERT_EQ(heard.size(), packets);
    for (std::uint32_t k = 0; k < packets; ++k) {
      ASSERT_EQ(heard[k].time, end[kLinks - 1][k] + nanoseconds(70)) << "seed " << seed << " " << k;
    }
  }
}

}  // namespace
}  // namespace tutti::sim
