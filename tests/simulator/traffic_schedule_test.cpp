// Runs the engine's own schedules on the fabric. The bytes on the links must equal those of the
// message plans, which other tests compare with the oracle.
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "collectives/registry.hpp"
#include "studies/traffic/plan_catalog.hpp"
#include "studies/traffic/schedule_plan.hpp"
#include "studies/traffic/traffic_run.hpp"

namespace tutti::traffic {
namespace {

using schedule::Collective;
using schedule::Purpose;
using sim::MessagePlan;

/// The link traffic of a plan on the 188-node system, and the time that the plan takes.
struct Outcome {
  std::array<std::uint64_t, sim::kLinkClasses> bytes{};
  sim::Picoseconds time;
};

Outcome run(const MessagePlan& plan) {
  const sim::Topology topology = sim::Topology::cluster188();
  sim::EventQueue queue;
  sim::TrafficRun traffic(
      queue, plan, sim::place(topology, plan.ranks(), sim::PlacementKind::packed).value(), {});
  // Packets are routed by destination, so that their paths do not depend on the numbers that
  // identify messages.
  sim::FabricSettings settings;
  settings.routing = sim::Routing::destination;
  sim::Fabric fabric(queue, topology, settings, traffic);
  EXPECT_TRUE(traffic.begin(fabric, {}));
  const Status done = traffic.run();
  EXPECT_TRUE(done) << done.to_string();
  Outcome outcome;
  for (std::size_t c = 0; c < sim::kLinkClasses; ++c) {
    outcome.bytes[c] = fabric.class_total(static_cast<sim::LinkClass>(c)).payload_bytes;
  }
  outcome.time = traffic.finish_time();
  return outcome;
}

Result<MessagePlan> plan(const Purpose& purpose, std::uint64_t block_bytes) {
  const auto schedules = collectives::build_all(purpose);
  if (!schedules) return schedules.status();
  return plan_of(*schedules, block_bytes);
}

/// Returns the plan that the command line selects by the name COLLECTIVE/ALGORITHM.
Result<MessagePlan> plan_by_name(const collectives::AlgorithmEntry& entry, std::uint32_t ranks,
                                 std::uint64_t bytes) {
  return sim::plan_by_name(std::string(to_string(entry.collective)) + "/" + std::string(entry.name),
                           ranks, bytes);
}

Purpose purpose(Collective collective, std::string algorithm, std::uint32_t ranks) {
  Purpose made;
  made.collective = collective;
  made.algorithm = std::move(algorithm);
  made.ranks = ranks;
  return made;
}

void expect_same(const Purpose& of, std::uint64_t bytes, const MessagePlan& vouched,
                 bool same_time = true) {
  const auto made = plan(of, bytes);
  ASSERT_TRUE(made) << of.algorithm << ": " << made.status().to_string();
  const Outcome engine = run(*made);
  const Outcome oracle = run(vouched);
  EXPECT_EQ(engine.bytes, oracle.bytes) << of.algorithm;
  if (same_time) {
    EXPECT_EQ(engine.time, oracle.time) << of.algorithm;
  }
}

TEST(TrafficOfSchedules, AllgatherSchedules_haveTheTrafficOfTheirPlans) {
  constexpr std::uint64_t kBytes = 4000;
  const auto of = [](const char* algorithm, std::uint32_t ranks) {
    return purpose(Collective::allgather, algorithm, ranks);
  };
  expect_same(of("ring", 188), kBytes, sim::plan_allgather_ring(188, kBytes));
  expect_same(of("bruck", 188), kBytes, sim::plan_allgather_bruck(188, kBytes));
  expect_same(of("linear", 60), kBytes, sim::plan_allgather_linear(60, kBytes), false);
  expect_same(of("recursive_doubling", 128), kBytes,
              sim::plan_allgather_recursive_doubling(128, kBytes));
  expect_same(of("multicast", 188), kBytes, sim::plan_allgather_multicast(188, kBytes, 1));
}

TEST(TrafficOfSchedules, BroadcastSchedules_haveTheTrafficOfTheirPlans) {
  constexpr std::uint64_t kBytes = 188 * 100;
  Purpose of = purpose(Collective::broadcast, "binomial", 188);
  expect_same(of, kBytes, sim::plan_broadcast_k_nomial(188, kBytes, 2));
  of.algorithm = "binary_tree";
  expect_same(of, kBytes, sim::plan_broadcast_binary_heap(188, kBytes));
  of.algorithm = "multicast";
  expect_same(of, kBytes, sim::plan_broadcast_multicast(188, kBytes));
  of.algorithm = "k_nomial";
  for (const std::uint32_t radix : {4u, 8u}) {
    of.parameters.radix = radix;
    expect_same(of, kBytes, sim::plan_broadcast_k_nomial(188, kBytes, radix));
  }
  of.algorithm = "chain";
  of.parameters.segments = 6;
  expect_same(of, kBytes, sim::plan_broadcast_chain(188, kBytes, 6));
}

/// Bytes that all ranks together must receive, if a block has `bytes`.
std::uint64_t least_received_bytes(Collective collective, std::uint64_t ranks,
                                   std::uint64_t bytes) {
  switch (collective) {
    case Collective::allgather:
    case Collective::allgatherv:
    case Collective::alltoall:
    case Collective::alltoallv:
    case Collective::reduce_scatter:
    case Collective::reduce_scatterv:
      return bytes * (ranks - 1) * ranks;
    case Collective::broadcast:
    case Collective::gather:
    case Collective::gatherv:
    case Collective::scatter:
    case Collective::scatterv:
    case Collective::reduce:
      return bytes * (ranks - 1);
    case Collective::allreduce:
      return 2 * bytes * (ranks - 1);
    case Collective::barrier:
      return 0;
  }
  return 0;
}

TEST(TrafficOfSchedules, EveryAlgorithmOfTheLibrary_deliversAtLeastTheNeededBytes) {
  constexpr std::uint64_t kBytes = 960;
  constexpr std::uint32_t kRanks = 32;
  for (const auto& entry : collectives::algorithms()) {
    const auto made = plan_by_name(entry, kRanks, kBytes);
    ASSERT_TRUE(made) << entry.name << ": " << made.status().to_string();
    const Outcome outcome = run(*made);
    const std::uint64_t received =
        outcome.bytes[static_cast<std::size_t>(sim::LinkClass::host_down)];
    EXPECT_GE(received, least_received_bytes(entry.collective, kRanks, kBytes)) << entry.name;
    EXPECT_GT(outcome.time.count, 0) << entry.name;
  }
}

TEST(TrafficOfSchedules, UnknownCollectiveOrAlgorithm_isRefused_andTheKnownOnesAreListed) {
  const auto collective = sim::plan_by_name("gossip/ring", 8, 100);
  ASSERT_FALSE(collective);
  EXPECT_NE(collective.status().message().find("allgather"), std::string::npos);
  const auto algorithm = sim::plan_by_name("allgather/post", 8, 100);
  ASSERT_FALSE(algorithm);
  EXPECT_NE(algorithm.status().message().find("bruck"), std::string::npos);
}

TEST(TrafficOfSchedules, ScheduleThatCannotBecomeAPlan_isRefused) {
  Purpose of = purpose(Collective::allgather, "multicast", 4);
  of.parameters.handshake = true;
  const auto made = plan(of, 100);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.status().code(), Code::unsupported);
  EXPECT_NE(made.status().message().find("cannot be part of a message plan"), std::string::npos);

  auto schedules = collectives::build_all(purpose(Collective::allgather, "ring", 4));
  ASSERT_TRUE(schedules);
  schedule::Program silent;
  silent.purpose = (*schedules)[2].purpose();
  silent.queues = {schedule::Queue{}};
  (*schedules)[2] = schedule::Schedule::make(silent).value();
  const auto lacking = plan_of(*schedules, 100);
  ASSERT_FALSE(lacking);
  EXPECT_NE(lacking.status().message().find("no task sends the message that rank 3"),
            std::string::npos)
      << lacking.status().message();
}

}  // namespace
}  // namespace tutti::traffic
