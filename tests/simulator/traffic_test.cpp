// Tests the bytes on links exactly against the oracle, and against the printed figures of
// [Khalilov24].
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "studies/traffic/message_plan.hpp"
#include "studies/traffic/traffic_run.hpp"

namespace tutti::sim {
namespace {

using Answers = std::map<std::string, std::map<std::string, std::uint64_t>>;

struct Algorithm {
  std::string name;
  std::function<MessagePlan(std::uint32_t, std::uint64_t)> plan;
};

const std::vector<Algorithm>& algorithms() {
  static const std::vector<Algorithm> all = {
      {"broadcast_multicast", plan_broadcast_multicast},
      {"broadcast_linear", plan_broadcast_linear},
      {"broadcast_chain", [](auto p, auto n) { return plan_broadcast_chain(p, n, 3); }},
      {"broadcast_binary_heap", [](auto p, auto n) { return plan_broadcast_binary_heap(p, n); }},
      {"broadcast_binary_in_order",
       [](auto p, auto n) { return plan_broadcast_binary_in_order(p, n, 2); }},
      {"broadcast_binomial", [](auto p, auto n) { return plan_broadcast_k_nomial(p, n, 2); }},
      {"broadcast_4_nomial", [](auto p, auto n) { return plan_broadcast_k_nomial(p, n, 4); }},
      {"broadcast_8_nomial", [](auto p, auto n) { return plan_broadcast_k_nomial(p, n, 8); }},
      {"broadcast_scatter_ring", plan_broadcast_scatter_ring},
      {"allgather_multicast", [](auto p, auto n) { return plan_allgather_multicast(p, n, 4); }},
      {"allgather_ring", plan_allgather_ring},
      {"allgather_linear", plan_allgather_linear},
      {"allgather_bruck", plan_allgather_bruck},
      {"allgather_recursive_doubling", plan_allgather_recursive_doubling},
  };
  return all;
}

std::string run_oracle(const std::string& arguments) {
  const auto script = std::filesystem::path(TUTTI_SIMULATOR_TESTS) / "oracle" / "link_traffic.py";
  const std::string command = "python3 '" + script.string() + "' " + arguments;
  std::FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return {};
  std::string text;
  std::array<char, 4096> block{};
  while (std::size_t read = std::fread(block.data(), 1, block.size(), pipe)) {
    text.append(block.data(), read);
  }
  return pclose(pipe) == 0 ? text : std::string();
}

Answers parse(const std::string& text) {
  Answers answers;
  std::istringstream lines(text);
  std::string name;
  std::string what;
  std::uint64_t value = 0;
  while (lines >> name >> what >> value) answers[name][what] = value;
  return answers;
}

/// Runs the oracle, a separate program that computes the expected bytes on the links of a tree of
/// switches. `hosts` names the host of each rank, and `subtrees` gives, for each level, the number
/// of consecutive hosts below one switch.
Answers ask_oracle(const std::vector<HostId>& hosts, const std::vector<std::uint32_t>& subtrees,
                   std::uint64_t bytes, const std::string& purpose) {
  const auto path = std::filesystem::temp_directory_path() /
                    ("tutti_traffic_" + std::to_string(getpid()) + "_" + purpose + ".json");
  {
    std::ofstream file(path);
    file << "{\"bytes\": " << bytes << ", \"algorithms\": [";
    for (const Algorithm& one : algorithms()) {
      file << (&one == &algorithms()[0] ? "" : ", ") << '"' << one.name << '"';
    }
    file << "], \"places\": [";
    for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
      file << (rank == 0 ? "[" : ", [");
      for (std::size_t level = 0; level < subtrees.size(); ++level) {
        file << (level == 0 ? "" : ", ") << index(hosts[rank]) / subtrees[level];
      }
      file << ']';
    }
    file << "]}";
  }
  const Answers answers = parse(run_oracle("< '" + path.string() + "'"));
  std::filesystem::remove(path);
  return answers;
}

struct Case {
  std::string name;
  FatTreeShape shape;
  /// Number of hosts below one switch, for each level except the top.
  std::vector<std::uint32_t> subtrees;
  std::uint32_t ranks;
  PlacementKind placement;
};

std::ostream& operator<<(std::ostream& out, const Case& one) { return out << one.name; }

class TrafficOracle : public testing::TestWithParam<Case> {};

TEST_P(TrafficOracle, BytesOnEachLinkClassEqualTheOracle) {
  const Case& one = GetParam();
  const Topology topology = std::move(Topology::fat_tree(one.shape).value());
  const std::vector<HostId> hosts = place(topology, one.ranks, one.placement, 7).value();
  // Cases of few ranks have messages of several packets, of which the last is partial. Larger cases
  // have shorter messages, so that they stay fast.
  const std::uint64_t bytes = std::uint64_t{one.ranks} * (one.ranks > 500 ? 1 : 24);
  const Answers expected = ask_oracle(hosts, one.subtrees, bytes, one.name);
  ASSERT_EQ(expected.size(), algorithms().size()) << "the oracle did not answer";
  for (const Algorithm& algorithm : algorithms()) {
    EventQueue queue;
    const MessagePlan plan = algorithm.plan(one.ranks, bytes);
    TrafficRun run(queue, plan, hosts, {.mtu_bytes = 2048, .trains = true});
    Fabric fabric(queue, topology, {.seed = 3}, run);
    ASSERT_TRUE(run.begin(fabric, {}));
    const Status done = run.run();
    ASSERT_TRUE(done) << algorithm.name << ": " << done.to_string();
    const auto& answers = expected.at(algorithm.name);
    std::uint64_t counted = 0;
    for (std::size_t c = 0; c < kLinkClasses; ++c) {
      const auto link_class = static_cast<LinkClass>(c);
      const std::uint64_t payload = fabric.class_total(link_class).payload_bytes;
      const auto answer = answers.find(to_string(link_class));
      EXPECT_EQ(payload, answer == answers.end() ? 0 : answer->second)
          << algorithm.name << " on " << to_string(link_class);
      counted += payload;
    }
    EXPECT_EQ(counted, answers.at("LINK")) << algorithm.name;
    for (const CountingRule rule : {CountingRule::link, CountingRule::rx_tx, CountingRule::tx,
                                    CountingRule::rx, CountingRule::fabric}) {
      EXPECT_EQ(count_traffic(fabric, rule).payload_bytes, answers.at(to_string(rule)))
          << algorithm.name << " by " << to_string(rule);
    }
    EXPECT_EQ(fabric.counters().in_flight, 0u);
    EXPECT_EQ(fabric.counters().dropped, 0u);
  }
}

FatTreeShape system188() {
  return {.down = {18, 12}, .up = {1, 6}, .parallel = {1, 3}, .hosts = 0};
}
FatTreeShape radix32_levels3() {
  return {.down = {16, 16, 4}, .up = {1, 16, 16}, .parallel = {}, .hosts = 0};
}
FatTreeShape radix32_levels2() {
  return {.down = {32, 32}, .up = {1, 32}, .parallel = {}, .hosts = 0};
}

INSTANTIATE_TEST_SUITE_P(
    Systems, TrafficOracle,
    testing::Values(
        Case{"nodes188_packed", system188(), {18}, 188, PlacementKind::packed},
        Case{"nodes188_blocks", system188(), {18}, 188, PlacementKind::even_blocks},
        Case{"nodes188_spread", system188(), {18}, 188, PlacementKind::spread},
        Case{"nodes188_random", system188(), {18}, 188, PlacementKind::random},
        Case{"nodes1024_three_levels_packed",
             radix32_levels3(),
             {16, 256},
             1024,
             PlacementKind::packed},
        Case{"nodes1024_three_levels_random",
             radix32_levels3(),
             {16, 256},
             1024,
             PlacementKind::random},
        Case{"nodes1024_two_levels_packed", radix32_levels2(), {32}, 1024, PlacementKind::packed},
        Case{"nodes1024_two_levels_random", radix32_levels2(), {32}, 1024, PlacementKind::random},
        Case{"nodes100_of_four_levels",
             FatTreeShape{.down = {3, 3, 3, 4}, .up = {1, 2, 3, 2}, .parallel = {}, .hosts = 0},
             {3, 9, 27},
             100,
             PlacementKind::random}),
    [](const testing::TestParamInfo<Case>& one) { return one.param.name; });

TEST(Traffic, TotalsOfTheOracle_agreeWithClosedForms) {
  EXPECT_NE(run_oracle("--check").find("all totals agree"), std::string::npos);
}

TEST(Traffic, ModelOfThePaper_matchesTheCurvesOfTheAuthors) {
  for (const std::uint32_t ranks : {2u, 16u, 32u, 128u, 512u}) {
    Answers expected = parse(run_oracle("--paper " + std::to_string(ranks)));
    ASSERT_EQ(expected.size(), 4u);
    const auto same = [&](const char* name, const MessagePlan& plan) {
      EXPECT_EQ(paper_link_units(plan, 64), expected[name]["LINK"]) << name << ' ' << ranks;
    };
    same("allgather_linear", plan_allgather_linear(ranks, 64));
    same("allgather_ring", plan_allgather_ring(ranks, 64));
    same("allgather_recursive_doubling", plan_allgather_recursive_doubling(ranks, 64));
    same("allgather_multicast", plan_allgather_multicast(ranks, 64, 1));
  }
  // The expected values are the ratios of [Khalilov24] figure 2, printed at 1024 nodes.
  const auto units = [](const MessagePlan& plan) {
    return static_cast<double>(paper_link_units(plan, 64));
  };
  const double multicast = units(plan_allgather_multicast(1024, 64, 1));
  EXPECT_NEAR(units(plan_allgather_ring(1024, 64)) / multicast, 1.993, 0.001);
  EXPECT_NEAR(units(plan_allgather_linear(1024, 64)) / multicast, 3.609, 0.001);
}

/// Runs a plan with one rank on each of 188 nodes. Returns its payload bytes, summed over the links
/// that `rule` counts.
std::uint64_t bytes188(const MessagePlan& plan, CountingRule rule, PlacementKind placement) {
  const Topology topology = Topology::cluster188();
  EventQueue queue;
  TrafficRun run(queue, plan, place(topology, 188, placement).value(), {.trains = true});
  Fabric fabric(queue, topology, {}, run);
  EXPECT_TRUE(run.begin(fabric, {}));
  EXPECT_TRUE(run.run());
  return count_traffic(fabric, rule).payload_bytes;
}

TEST(Traffic, MulticastSavingsAt188NodesMatchThePaper) {
  constexpr std::uint64_t kBytes = 64u << 10;
  const auto ratio = [](const MessagePlan& peer, const MessagePlan& multicast, CountingRule rule) {
    const auto placement = PlacementKind::packed;
    return static_cast<double>(bytes188(peer, rule, placement)) /
           static_cast<double>(bytes188(multicast, rule, placement));
  };
  const MessagePlan gather = plan_allgather_multicast(188, kBytes, 1);
  const MessagePlan cast = plan_broadcast_multicast(188, kBytes);
  const MessagePlan ring = plan_allgather_ring(188, kBytes);
  EXPECT_NEAR(ratio(ring, gather, CountingRule::link), 1.989, 0.001);
  EXPECT_NEAR(ratio(ring, gather, CountingRule::rx_tx), 1.989, 0.001);
  EXPECT_NEAR(ratio(ring, gather, CountingRule::fabric), 1.989, 0.001);
  EXPECT_NEAR(ratio(ring, gather, CountingRule::tx), 1.06, 0.01);
  EXPECT_GT(ratio(plan_broadcast_k_nomial(188, kBytes, 2), cast, CountingRule::link), 1.5);
  EXPECT_GT(ratio(plan_broadcast_scatter_ring(188, kBytes), cast, CountingRule::link), 1.5);
}

TEST(Traffic, Headers_countAsBytesOnTheWire_butNotAsPayload) {
  const Topology topology = Topology::single_switch(4);
  EventQueue queue;
  const MessagePlan plan = plan_broadcast_multicast(4, 10000);
  TrafficRun run(queue, plan, place(topology, 4, PlacementKind::packed).value(), {});
  Fabric fabric(queue, topology, {}, run);
  ASSERT_TRUE(run.begin(fabric, {}));
  ASSERT_TRUE(run.run());
  const TrafficCount down = fabric.class_total(LinkClass::host_down);
  EXPECT_EQ(down.packets, 9u);
  EXPECT_EQ(down.payload_bytes, 30000u);
  EXPECT_EQ(down.wire_bytes, 30000u + 9 * 76);
}

/// The time of a plan on 16 hosts of one switch at 80 Gbit/s: 100 ps a byte, and no other delays.
Picoseconds time_of(const MessagePlan& plan, Picoseconds overhead = {}) {
  const Topology topology =
      Topology::single_switch(16, {.bits_per_second = 80'000'000'000, .latency = {}});
  EventQueue queue;
  TrafficRun run(queue, plan, place(topology, 16, PlacementKind::packed).value(),
                 {.mtu_bytes = 1000,
                  .unicast_header_bytes = 0,
                  .multicast_header_bytes = 0,
                  .message_overhead = overhead});
  FabricSettings settings;
  settings.switch_latency = {};
  Fabric fabric(queue, topology, settings, run);
  EXPECT_TRUE(run.begin(fabric, {}));
  EXPECT_TRUE(run.run());
  return run.finish_time();
}

TEST(Traffic, TimesOfPlans_followFromTheirDataDependencies) {
  const Picoseconds packet = nanoseconds(100);  // time of 1000 bytes over one hop
  EXPECT_EQ(time_of(plan_broadcast_multicast(16, 1000)), packet * 2);
  EXPECT_EQ(time_of(plan_broadcast_multicast(16, 8000)), packet * 9);
  EXPECT_EQ(time_of(plan_broadcast_chain(16, 1000, 1)), packet * 30);
  EXPECT_EQ(time_of(plan_broadcast_chain(16, 1000, 1), nanoseconds(10)),
            packet * 30 + nanoseconds(140));
  // Four pieces travel in a pipeline: the first piece takes 15 messages of two hops each, and three
  // pieces follow it.
  EXPECT_EQ(time_of(plan_broadcast_chain(16, 4000, 4)), packet * 33);
  EXPECT_EQ(time_of(plan_broadcast_k_nomial(16, 1000, 2)), packet * 8);
  EXPECT_EQ(time_of(plan_allgather_ring(16, 1000)), packet * 30);
  // The four rounds move 1, 2, 4 and 8 blocks. Each round takes one packet time per block, and one
  // more for the second hop.
  EXPECT_EQ(time_of(plan_allgather_bruck(16, 1000)), packet * 19);
  EXPECT_EQ(time_of(plan_allgather_recursive_doubling(16, 1000)), packet * 19);
}

TEST(Traffic, ImpossiblePlansAreRefused) {
  const Topology topology = Topology::single_switch(4);
  const auto refusal = [&](const MessagePlan& plan, std::uint32_t hosts) {
    EventQueue queue;
    TrafficRun run(queue, plan, place(topology, hosts, PlacementKind::packed).value(), {});
    Fabric fabric(queue, topology, {}, run);
    return run.begin(fabric, {}).message();
  };
  MessagePlan plan(4);
  const MessageIndex first = plan.add({0, 1, 100});
  plan.add({2, 3, 100}, std::span(&first, 1));
  EXPECT_NE(refusal(plan, 4).find("message 1 cannot wait for message 0"), std::string::npos);
  EXPECT_NE(refusal(plan_broadcast_linear(4, 1), 3).find("3 hosts are given for a plan of 4"),
            std::string::npos);
}

TEST(Traffic, RunThatLosesPackets_endsWithAnError) {
  const Topology topology = Topology::single_switch(4);
  EventQueue queue;
  const MessagePlan plan = plan_broadcast_chain(4, 1000, 1);
  TrafficRun run(queue, plan, place(topology, 4, PlacementKind::packed).value(), {});
  Fabric fabric(queue, topology, {}, run);
  fabric.set_loss(LinkClass::host_up, 1.0);
  ASSERT_TRUE(run.begin(fabric, {}));
  const Status done = run.run();
  EXPECT_FALSE(done);
  EXPECT_NE(done.message().find("3 packets did not arrive; the fabric dropped 1"),
            std::string::npos)
      << done.message();
}

}  // namespace
}  // namespace tutti::sim
