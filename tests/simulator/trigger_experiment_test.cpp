// Tests interfaces with trigger units in virtual time: the invariants of every run, and the shapes
// of the tables and figures of [Xu25].
#include "studies/offload/trigger_experiment.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace tutti::simulation {
namespace {

using trigger::CollectiveKind;

/// A network of eight nodes whose buffers are so small that jobs of a few KiB overfill them.
TriggerNetworkSpec crowded(CollectiveKind kind, std::uint64_t bytes, std::uint32_t jobs) {
  TriggerNetworkSpec spec = tianhe_interface(kind, bytes, jobs);
  spec.nodes = 8;
  spec.bank.units = 2;
  spec.bank.ports = 512;
  spec.bank.unit = {.buffer_bytes = 16 * 256, .slot_bytes = 256, .sequences = 64};
  spec.segment_bytes = 256;
  spec.credits = {.capacity_elements = 2 * 64 * 32,
                  .pulses = 32,
                  .window = 16,
                  .requests = jobs,
                  .counters = 32};
  spec.start_spread = sim::microseconds(20);
  return spec;
}

TEST(TriggerNetwork, FullBuffers_pushPacketsBack_andNothingIsLostOrOverrun) {
  for (const CollectiveKind kind : {CollectiveKind::allreduce, CollectiveKind::reduce}) {
    for (std::uint64_t seed = 1; seed <= 4; ++seed) {
      TriggerNetworkSpec spec = crowded(kind, 8192, 8);
      spec.seed = seed;
      const auto report = run_trigger_network(spec);
      ASSERT_TRUE(report.ok()) << report.status().to_string();
      EXPECT_GT(report->pushed_back, 0u) << "the test needs buffers that overflow";
      EXPECT_GT(report->held_back, 0u);
      EXPECT_LE(report->held_back, report->pushed_back);
      EXPECT_GT(report->most_full_percent, 75.0);
      EXPECT_LE(report->most_full_percent, report->allowed_percent);
      EXPECT_LE(report->mean_waiting_percent, report->mean_used_percent);
      EXPECT_LE(report->mean_used_percent, report->peak_used_percent);
      EXPECT_LE(report->pulses_in_flight, report->pulses_allowed);
      const std::uint64_t results = kind == CollectiveKind::reduce ? 8u : 8u * 8u;
      EXPECT_EQ(report->results_checked, results * (8192 / sizeof(double)));
    }
  }
}

TEST(TriggerNetwork, AmpleBuffers_pushNoPacketBack) {
  const auto report =
      run_trigger_network(tianhe_interface(CollectiveKind::allreduce, 32u << 10, 8));
  ASSERT_TRUE(report.ok()) << report.status().to_string();
  EXPECT_EQ(report->pushed_back, 0u);
  EXPECT_EQ(report->held_back, 0u);
}

TEST(TriggerNetwork, SeedDeterminesTheRun) {
  TriggerNetworkSpec spec = crowded(CollectiveKind::allreduce, 4096, 8);
  const auto first = run_trigger_network(spec);
  const auto again = run_trigger_network(spec);
  spec.seed = 2;
  const auto other = run_trigger_network(spec);
  ASSERT_TRUE(first.ok() && again.ok() && other.ok());
  EXPECT_EQ(first->digest, again->digest);
  EXPECT_EQ(first->time, again->time);
  EXPECT_EQ(first->pushed_back, again->pushed_back);
  EXPECT_NE(first->digest, other->digest);
}

TEST(TriggerNetwork, SingleReduce_takesTheSumOfTheTimesOfItsHops) {
  // A Reduce of 8 nodes takes three steps of halving and three of gathering to the root, each with
  // the network latency, the time of its bytes and up to one tick. The processor latency and two
  // bus latencies come first, and one bus latency comes last.
  TriggerNetworkSpec spec = tianhe_interface(CollectiveKind::reduce, 64, 1);
  spec.nodes = 8;
  spec.start_spread = {};
  const auto report = run_trigger_network(spec);
  ASSERT_TRUE(report.ok()) << report.status().to_string();
  const sim::Picoseconds least =
      spec.latency.processor + 3 * spec.latency.bus + 6 * spec.latency.network;
  EXPECT_GE(report->root_time, least);
  EXPECT_LE(report->root_time, least + 8 * (spec.tick + sim::nanoseconds(10)));
  // After the root has its result, it sends a last message to every other node, down the three
  // levels of the gathering tree.
  EXPECT_GE(report->time, least + 3 * spec.latency.network);
  EXPECT_LE(report->time,
            least + 3 * spec.latency.network + 12 * (spec.tick + sim::nanoseconds(10)));
}

TEST(TriggerNetwork, MoreBytesOrMoreJobs_fillTheBuffersMore) {
  std::vector<double> before;
  for (const std::uint64_t bytes : {256u, 4096u, 16384u, 65536u}) {
    std::vector<double> used;
    for (const std::uint32_t jobs : {1u, 4u, 16u}) {
      TriggerNetworkSpec spec = tianhe_interface(CollectiveKind::allreduce, bytes, jobs);
      spec.nodes = 8;
      const auto report = run_trigger_network(spec);
      ASSERT_TRUE(report.ok()) << report.status().to_string();
      used.push_back(report->mean_used_percent);
      if (used.size() > 1) {
        EXPECT_GT(used.back(), used[used.size() - 2]) << bytes;
      }
    }
    for (std::size_t i = 0; i < before.size(); ++i) EXPECT_GT(used[i], before[i]) << bytes;
    before = used;
  }
}

TEST(TriggerNetwork, ImpossibleSpecsAreRefused) {
  TriggerNetworkSpec spec = tianhe_interface(CollectiveKind::allreduce, 1024, 1);
  spec.bytes = 1001;
  EXPECT_EQ(run_trigger_network(spec).status().code(), Code::invalid_argument);
  spec.bytes = 1024;
  spec.nodes = 1;
  EXPECT_EQ(run_trigger_network(spec).status().code(), Code::invalid_argument);
  spec.nodes = 32;
  spec.jobs = spec.bank.jobs + 1;
  EXPECT_EQ(run_trigger_network(spec).status().code(), Code::invalid_argument);
  spec.jobs = 1;
  spec.segment_bytes = 2 * spec.bank.unit.slot_bytes;
  EXPECT_EQ(run_trigger_network(spec).status().code(), Code::invalid_argument);
  EXPECT_EQ(run_offload_speedup(tianhe_interface(CollectiveKind::barrier, 8, 1)).status().code(),
            Code::invalid_argument);
}

TEST(HostNetwork, TimeOfAChainOfHops_followsFormulaTwoOfThePaper) {
  HostNetworkSpec spec;
  spec.nodes = 2;
  spec.bytes = 1u << 20;
  spec.start_spread = {};
  const auto report = run_host_network(spec);
  ASSERT_TRUE(report.ok()) << report.status().to_string();
  // The two nodes exchange halves and add them. Then the half of the result that the root lacks
  // goes to the root.
  const std::uint64_t half = spec.bytes / 2 + 24;
  const sim::Picoseconds sent =
      spec.latency.message() + sim::WireSpeed(spec.latency.memory_bits_per_second).time_of(half);
  const sim::Picoseconds added =
      sim::WireSpeed(spec.latency.compute_bits_per_second).time_of(spec.bytes / 2);
  EXPECT_EQ(report->root_time, 2 * sent + added);
  EXPECT_EQ(report->messages, 4u) << "the messages are two halves, one gathered half and the end";
}

TEST(HostNetwork, JobsThatShareANode_slowEachOtherDown) {
  HostNetworkSpec spec;
  spec.bytes = 256u << 10;
  spec.jobs = 8;
  const auto own = run_host_network(spec);
  spec.shared_links = true;
  const auto shared = run_host_network(spec);
  spec.jobs = 1;
  const auto alone = run_host_network(spec);
  ASSERT_TRUE(own.ok() && shared.ok() && alone.ok());
  EXPECT_GT(shared->time, own->time);
  EXPECT_GT(shared->time, alone->time);
  EXPECT_LE(shared->time, 8 * alone->time);
}

TEST(OffloadFormulas, CalibrationPointsAreReproduced) {
  const OffloadLatency latency;
  EXPECT_NEAR(broadcast_formula(latency, 256 / kBroadcastPieces), 2.11, 0.01);
  EXPECT_NEAR(reduce_formula(latency, 256 / 2), 1.46, 0.01);
  EXPECT_NEAR(reduce_formula(latency, (1u << 20) / 2), 2.42, 0.03);
}

TEST(OffloadSpeedup, Speedup_fallsWithTheSizeOfABroadcast_andGrowsWithThatOfAReduce) {
  double broadcast_before = 1e9;
  double formula_before = 1e9;
  double reduce_before = 0;
  for (const std::uint64_t bytes : {std::uint64_t{256}, std::uint64_t{16} << 10,
                                    std::uint64_t{128} << 10, std::uint64_t{1} << 20}) {
    const auto broadcast =
        run_offload_speedup(tianhe_interface(CollectiveKind::broadcast, bytes, 1));
    const auto reduce = run_offload_speedup(tianhe_interface(CollectiveKind::reduce, bytes, 1));
    ASSERT_TRUE(broadcast.ok()) << broadcast.status().to_string();
    ASSERT_TRUE(reduce.ok()) << reduce.status().to_string();
    EXPECT_LT(broadcast->speedup, broadcast_before) << bytes;
    EXPECT_LT(broadcast->formula, formula_before) << bytes;
    EXPECT_GT(broadcast->speedup, 1.0);
    EXPECT_GT(reduce->speedup, reduce_before) << bytes;
    broadcast_before = broadcast->speedup;
    formula_before = broadcast->formula;
    reduce_before = reduce->speedup;
  }
}

TEST(OffloadSpeedup, JobsThatShareNoNode_areAsFastAsASingleJob) {
  const auto alone = run_offload_speedup(tianhe_interface(CollectiveKind::broadcast, 64u << 10, 1));
  const auto many = run_offload_speedup(tianhe_interface(CollectiveKind::broadcast, 64u << 10, 8));
  ASSERT_TRUE(alone.ok() && many.ok());
  EXPECT_NEAR(many->speedup / alone->speedup, 1.0, 0.02);
}

}  // namespace
}  // namespace tutti::simulation
