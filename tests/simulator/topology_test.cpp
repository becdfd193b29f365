#include "sim/fabric/topology.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/random.hpp"

namespace tutti::sim {
namespace {

/// Follows a random route from one host to another; returns its links, or none if the route does
/// not arrive.
std::vector<LinkId> walk(const Topology& topology, HostId from, HostId to, Random& random) {
  std::vector<LinkId> path{topology.host_up(from)};
  while (path.size() < 12) {
    const Link& last = topology.link(path.back());
    if (last.link_class == LinkClass::host_down) {
      return last.to == index(to) ? path : std::vector<LinkId>();
    }
    const SwitchId at{last.to};
    const NextLinks next = topology.next(at, to);
    if (next.size() == 0) return {};
    const LinkId link = next[static_cast<std::uint32_t>(random.below(next.size()))];
    EXPECT_EQ(topology.link(link).from, index(at))
        << "a route takes a link that does not begin at its current switch";
    path.push_back(link);
  }
  return {};
}

/// Checks the invariants of a topology and returns the length of its longest path.
std::size_t check(const Topology& topology) {
  std::size_t hosts = 0;
  for (std::uint32_t leaf = 0; leaf < topology.leaves(); ++leaf) {
    EXPECT_EQ(index(topology.first_host(SwitchId{leaf})), hosts);
    for (std::uint32_t i = 0; i < topology.host_count(SwitchId{leaf}); ++i) {
      EXPECT_EQ(index(topology.leaf_of(HostId{static_cast<std::uint32_t>(hosts + i)})), leaf);
    }
    hosts += topology.host_count(SwitchId{leaf});
  }
  EXPECT_EQ(hosts, topology.hosts());
  for (std::uint32_t i = 0; i < topology.links(); ++i) {
    const Link& link = topology.link(LinkId{i});
    const LinkId back = topology.reverse(LinkId{i});
    EXPECT_EQ(topology.reverse(back), LinkId{i});
    EXPECT_EQ(topology.link(back).from, link.to);
    EXPECT_EQ(topology.link(back).to, link.from);
    EXPECT_EQ(i < topology.hosts(), link.link_class == LinkClass::host_up);
    EXPECT_EQ(topology.is_host_down(LinkId{i}), link.link_class == LinkClass::host_down);
  }
  std::size_t trunks = 0;
  for (std::uint32_t at = 0; at < topology.switches(); ++at) {
    for (const LinkId link : topology.trunks(SwitchId{at})) {
      EXPECT_EQ(topology.link(link).from, at);
      ++trunks;
    }
  }
  EXPECT_EQ(trunks + 2 * hosts, topology.links());
  Random random(5);
  std::size_t longest = 0;
  for (int i = 0; i < 2000; ++i) {
    const HostId from{static_cast<std::uint32_t>(random.below(hosts))};
    const HostId to{static_cast<std::uint32_t>(random.below(hosts))};
    const std::vector<LinkId> path = walk(topology, from, to, random);
    EXPECT_FALSE(path.empty()) << index(from) << " does not reach " << index(to);
    longest = std::max(longest, path.size());
  }
  return longest;
}

std::map<LinkClass, std::size_t> links_by_class(const Topology& topology) {
  std::map<LinkClass, std::size_t> counts;
  for (std::uint32_t i = 0; i < topology.links(); ++i)
    ++counts[topology.link(LinkId{i}).link_class];
  return counts;
}

TEST(Topology, System188HasTwelveLeavesSixSpinesAndTrunksOfThree) {
  const Topology topology = Topology::cluster188();
  EXPECT_EQ(check(topology), 4u);
  EXPECT_EQ(topology.hosts(), 216u);
  EXPECT_EQ(topology.switches(), 18u);
  auto counts = links_by_class(topology);
  EXPECT_EQ(counts[LinkClass::up1], 12u * 18);
  EXPECT_EQ(counts[LinkClass::down1], 12u * 18);
  std::vector<std::uint32_t> ports(18);
  std::map<std::pair<std::uint32_t, std::uint32_t>, int> trunks;
  for (std::uint32_t i = 0; i < topology.links(); ++i) {
    const Link& link = topology.link(LinkId{i});
    if (link.link_class != LinkClass::host_up) ++ports[link.from];
    if (link.link_class == LinkClass::up1) ++trunks[{link.from, link.to}];
  }
  EXPECT_EQ(ports, std::vector<std::uint32_t>(18, 36));
  EXPECT_EQ(trunks.size(), 72u);
  for (const auto& [pair, width] : trunks) EXPECT_EQ(width, 3);
}

TEST(Topology, FatTreesOfEveryRadixAndDepthKeepTheInvariants) {
  for (const std::uint32_t radix : {4u, 8u, 12u}) {
    for (std::uint32_t levels = 1; levels <= 4; ++levels) {
      if (radix == 12 && levels == 4) continue;
      const Topology topology = std::move(Topology::fat_tree(radix, levels).value());
      std::uint32_t hosts = radix;
      for (std::uint32_t i = 1; i < levels; ++i) hosts = hosts * radix / 2;
      EXPECT_EQ(topology.hosts(), hosts);
      EXPECT_EQ(topology.levels(), levels);
      EXPECT_EQ(check(topology), 2 * levels);
      for (const auto& [link_class, count] : links_by_class(topology)) {
        EXPECT_EQ(count, hosts) << "full bandwidth: as many links on every level";
      }
      std::map<std::uint32_t, std::uint32_t> ports;
      for (std::uint32_t i = 0; i < topology.links(); ++i) {
        const Link& link = topology.link(LinkId{i});
        if (link.link_class != LinkClass::host_up) ++ports[link.from];
      }
      for (const auto& [at, used] : ports) EXPECT_EQ(used, radix) << "switch " << at;
    }
  }
}

TEST(Topology, OversubscribedAndPartlyPopulatedTreesKeepTheInvariants) {
  const Topology narrow = std::move(Topology::fat_tree(16, 2, 3).value());
  EXPECT_EQ(narrow.hosts(), 16u * 12);
  EXPECT_EQ(links_by_class(narrow)[LinkClass::up1], 16u * 4);
  check(narrow);

  const Topology partly = std::move(
      Topology::fat_tree({.down = {4, 3, 2}, .up = {1, 2, 2}, .parallel = {1, 2, 1}, .hosts = 10})
          .value());
  EXPECT_EQ(partly.hosts(), 10u);
  EXPECT_EQ(partly.leaves(), 6u);
  EXPECT_EQ(partly.host_count(SwitchId{2}), 2u);
  EXPECT_EQ(partly.host_count(SwitchId{5}), 0u);
  check(partly);
}

TEST(Topology, HundredThousandHosts_areRoutedWithoutATableOfPairs) {
  const Topology topology = std::move(
      Topology::fat_tree({.down = {32, 32, 100}, .up = {1, 32, 32}, .parallel = {}, .hosts = 0})
          .value());
  EXPECT_EQ(topology.hosts(), 102'400u);
  Random random(1);
  for (int i = 0; i < 1000; ++i) {
    const HostId from{static_cast<std::uint32_t>(random.below(102'400))};
    const HostId to{static_cast<std::uint32_t>(random.below(102'400))};
    ASSERT_FALSE(walk(topology, from, to, random).empty());
  }
}

TEST(Topology, DragonflyReachesOtherGroupsByOneGlobalLink) {
  for (const std::uint32_t groups : {1u, 2u, 3u, 5u, 9u}) {
    const Topology topology = std::move(Topology::dragonfly_plus({.groups = groups,
                                                                  .leaves_per_group = 3,
                                                                  .spines_per_group = 4,
                                                                  .hosts_per_leaf = 2,
                                                                  .global_ports_per_spine = 2})
                                            .value());
    EXPECT_EQ(topology.hosts(), groups * 6);
    check(topology);
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> between;
    std::map<std::uint32_t, std::uint32_t> ports;
    const std::uint32_t leaves = groups * 3;
    for (std::uint32_t i = 0; i < topology.links(); ++i) {
      const Link& link = topology.link(LinkId{i});
      if (link.link_class != LinkClass::side) continue;
      ++between[{(link.from - leaves) / 4, (link.to - leaves) / 4}];
      EXPECT_LE(++ports[link.from], 2u);
    }
    EXPECT_EQ(between.size(), groups * (groups - 1));
    for (const auto& [pair, count] : between) EXPECT_EQ(count, 8 / (groups - 1));
    Random random(groups);
    for (int i = 0; i < 500; ++i) {
      const HostId from{static_cast<std::uint32_t>(random.below(topology.hosts()))};
      const HostId to{static_cast<std::uint32_t>(random.below(topology.hosts()))};
      const std::vector<LinkId> path = walk(topology, from, to, random);
      const auto global = std::count_if(path.begin(), path.end(), [&](LinkId link) {
        return topology.link(link).link_class == LinkClass::side;
      });
      EXPECT_EQ(global, index(from) / 6 == index(to) / 6 ? 0 : 1);
    }
  }
}

TEST(Topology, TopologyText_isParsedToItsHostsSwitchesAndLinks) {
  const Topology tree = std::move(Topology::parse("link 56Gbit/s 50ns ber 1e-15\n"
                                                  "fat-tree down 18 12 up 1 6 parallel 1 3\n")
                                      .value());
  EXPECT_EQ(tree.links(), Topology::cluster188().links());
  EXPECT_EQ(tree.specs()[0].bits_per_second, 56'000'000'000u);
  EXPECT_EQ(tree.specs()[0].bit_error_rate, 1e-15);
  const Topology dragonfly =
      std::move(Topology::parse("dragonfly+ groups 3 leaves 2 spines 2 hosts 4 ports 1").value());
  EXPECT_EQ(dragonfly.hosts(), 24u);

  const Topology own = std::move(Topology::parse("# two leaves behind three, unequal\n"
                                                 "link 100Gbit/s 1us\n"
                                                 "switch a b c\n"
                                                 "switch top\n"
                                                 "hosts c 1   # the first leaf declared is a\n"
                                                 "hosts a 3\n"
                                                 "hosts b 2\n"
                                                 "link 400Gbit/s 500ns\n"
                                                 "cable a top x2\n"
                                                 "cable b top\n"
                                                 "cable top c\n")
                                     .value());
  check(own);
  EXPECT_EQ(own.hosts(), 6u);
  EXPECT_EQ(own.host_count(SwitchId{0}), 3u);
  EXPECT_EQ(own.host_count(SwitchId{2}), 1u);
  EXPECT_EQ(own.level(SwitchId{3}), 2u);
  EXPECT_EQ(links_by_class(own)[LinkClass::up1], 4u);
  EXPECT_EQ(own.specs()[own.link(own.host_up(HostId{0})).spec].latency, microseconds(1));
  EXPECT_EQ(own.specs()[own.link(LinkId{12}).spec].bits_per_second, 400'000'000'000u);
}

TEST(Topology, ParseErrorsNameTheLineAndTheRemedy) {
  const auto error = [](std::string_view text) {
    const auto made = Topology::parse(text, "my.topology");
    EXPECT_FALSE(made.ok()) << text;
    return made.ok() ? std::string() : made.status().message();
  };
  const auto expect = [&](std::string_view text, std::string_view line, std::string_view remedy) {
    const std::string message = error(text);
    EXPECT_EQ(message.rfind("my.topology:" + std::string(line) + ": ", 0), 0u) << message;
    EXPECT_NE(message.find(remedy), std::string::npos) << message;
  };
  expect("switch a\nhosts a 2\ncable a b\n", "3", "declare it above with 'switch b'");
  expect("\nrouter a\n", "2", "unknown statement 'router'");
  expect("link 200Gbit 50ns", "1", "write 'link RATE LATENCY");
  expect("link 200Gbit/s 50", "1", "write 'link RATE LATENCY");
  expect("link 200Gbit/s 50ns ber 2", "1", "a bit-error rate lies in 0 .. 1");
  expect("link 1Mbit/s 50ns", "1", "10Mbit/s to 10Tbit/s");
  expect("link nanGbit/s 50ns", "1", "10Mbit/s to 10Tbit/s");
  expect("link 200Gbit/s nanns", "1", "10Mbit/s to 10Tbit/s");
  expect("link 200Gbit/s 50ns ber nan", "1", "a bit-error rate lies in 0 .. 1");
  expect("switch a\nswitch b a\n", "2", "choose another name");
  expect("switch a level 9", "1", "a level is 1 to 6");
  expect("switch a\nhosts a none", "2", "write 'hosts SWITCH N'");
  expect("switch a\nhosts a 1\nhosts a 2", "3", "give one number");
  expect("switch a\nhosts a 1\ncable a a", "3", "name another one");
  expect("switch a b\nhosts a 1\ncable a b x0", "3", "x1 to x1024");
  expect("switch a b\nhosts a 1\nlink 1Gbit/s 1ns\nhosts b 1", "4", "same kind of link");
  expect("fat-tree down 4 up 2", "1", "a host of a fat tree has more than one link");
  expect("fat-tree up 1", "1", "write 'fat-tree down N...");
  expect("fat-tree down 4 4 up 1 2 hosts 17", "1", "17 hosts do not fit into a fat tree with 16");
  expect("fat-tree down 4 up 1\nswitch a", "2", "remove this line");
  expect("switch a\nfat-tree down 4 up 1", "2", "remove the switches above");
  expect("dragonfly+ groups 9 leaves 1 spines 1 hosts 1 ports 2", "1", "add spine switches");
  expect("dragonfly+ groups 9", "1", "write 'dragonfly+ groups N");
  EXPECT_NE(error("switch a\n").find("add 'hosts SWITCH N'"), std::string::npos);
  EXPECT_NE(error("switch a b\nhosts a 1\nhosts b 1\n").find("add cables between them"),
            std::string::npos);
  EXPECT_NE(error("switch a b\nhosts a 1\n").find("add a cable or remove it"), std::string::npos);
}

TEST(Topology, ImpossibleTreesAreRefused) {
  EXPECT_FALSE(Topology::fat_tree(7, 2).ok());
  EXPECT_FALSE(Topology::fat_tree(8, 0).ok());
  EXPECT_FALSE(Topology::fat_tree(8, 7).ok());
  EXPECT_FALSE(Topology::fat_tree(8, 2, 2).ok());
  EXPECT_FALSE(Topology::fat_tree({.down = {4, 0}, .up = {1, 1}, .parallel = {}}).ok());
  EXPECT_FALSE(Topology::fat_tree({.down = {4, 4}, .up = {1}, .parallel = {}}).ok());
  EXPECT_FALSE(
      Topology::fat_tree({.down = {65536, 65536, 65536}, .up = {1, 1, 1}, .parallel = {}}).ok());
  EXPECT_FALSE(Topology::dragonfly_plus({}).ok());
}

TEST(Topology, DragonflyWithTooManyLinks_isRefused) {
  constexpr std::uint32_t kMost = UINT32_MAX;
  for (const DragonflyShape& shape :
       {DragonflyShape{1, 1, 1, kMost, 0}, DragonflyShape{65536, 65536, 1, 1, 65536},
        DragonflyShape{1, kMost, kMost, kMost, kMost}, DragonflyShape{2, 1, 65536, 1, 65536}}) {
    const auto topology = Topology::dragonfly_plus(shape);
    EXPECT_EQ(topology.status().message().find(
                  "the dragonfly+ topology has more than 2147483648 links: use fewer groups"),
              0u)
        << topology.status().message();
  }
}

TEST(Topology, SmallTopologiesKeepTheInvariants) {
  EXPECT_EQ(check(Topology::back_to_back()), 2u);
  EXPECT_EQ(Topology::back_to_back().hosts(), 2u);
  EXPECT_EQ(check(Topology::single_switch(100)), 2u);
}

TEST(Placement, RanksAreOnTheChosenHosts) {
  const Topology topology = Topology::cluster188();
  const auto leaves = [&](PlacementKind kind, std::uint64_t seed = 1) {
    std::vector<std::uint32_t> result;
    const std::vector<HostId> hosts = place(topology, 188, kind, seed).value();
    for (const HostId host : hosts) {
      result.push_back(index(topology.leaf_of(host)));
    }
    return result;
  };
  const auto packed = leaves(PlacementKind::packed);
  const auto blocks = leaves(PlacementKind::even_blocks);
  const auto spread = leaves(PlacementKind::spread);
  for (std::uint32_t rank = 0; rank < 188; ++rank) {
    EXPECT_EQ(packed[rank], rank / 18);
    EXPECT_EQ(blocks[rank], rank * 12 / 188);
    EXPECT_EQ(spread[rank], rank % 12);
  }
  EXPECT_EQ(leaves(PlacementKind::random, 4), leaves(PlacementKind::random, 4));
  EXPECT_NE(leaves(PlacementKind::random, 4), leaves(PlacementKind::random, 5));
  for (const auto kind : {PlacementKind::packed, PlacementKind::even_blocks, PlacementKind::spread,
                          PlacementKind::random}) {
    const std::vector<HostId> hosts = place(topology, 216, kind).value();
    std::set<std::uint32_t> distinct;
    for (const HostId host : hosts) distinct.insert(index(host));
    EXPECT_EQ(distinct.size(), 216u);
  }
  EXPECT_FALSE(place(topology, 217, PlacementKind::packed).ok());
}

}  // namespace
}  // namespace tutti::sim
