// Converts schedules of src/collectives to descriptors, runs them on trigger units and checks the
// results.
#include "trigger/build/from_schedule.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "collective_reference.hpp"
#include "collectives/registry.hpp"
#include "unit_network.hpp"

namespace tutti::trigger {
namespace {

using reduction::ElementType;
using reduction::Operation;
using schedule::Buffer;
using schedule::Collective;

constexpr std::uint32_t kElements = 13;
constexpr auto kJob = static_cast<JobId>(77);

UnitNetwork::Settings settings(std::uint32_t ranks) {
  UnitNetwork::Settings settings;
  settings.ranks = ranks;
  settings.bank.units = 2;
  settings.bank.ports = 4;
  settings.bank.unit = {
      .buffer_bytes = 64 * 2048, .slot_bytes = 2048, .sequences = 4, .outbox_packets = 4};
  return settings;
}

/// Runs one schedule at all ranks, with separate buffers for each rank.
class LoweredRun {
 public:
  LoweredRun(std::uint32_t ranks, std::uint64_t seed) : network_(settings(ranks), seed) {}

  /// Ok if every rank has completed its schedule; otherwise the first error.
  Status run(const schedule::Purpose& purpose, ElementType type) {
    const auto schedules = collectives::build_all(purpose);
    if (!schedules) return schedules.status();
    const std::uint64_t block_bytes = kElements * element_bytes(type);
    const auto shape = schedule::Shape::uniform(block_bytes, element_bytes(type));
    for (std::uint32_t rank = 0; rank < purpose.ranks; ++rank) {
      const schedule::Schedule& one = (*schedules)[rank];
      sends_.push_back(contribution(type, kElements * one.blocks(Buffer::send), rank));
      receives_.emplace_back(block_bytes * one.blocks(Buffer::receive));
      scratches_.emplace_back(scratch_bytes(one, shape));
      const bool source = purpose.collective == Collective::broadcast;
      if (source && rank_of(rank) == purpose.root) {
        receives_[rank] = contribution(type, kElements, rank);
      }
      UnitBank& bank = network_.bank(rank);
      ScheduleCall call;
      call.nodes = network_.nodes();
      call.job = kJob;
      call.port = static_cast<Port>(1);
      call.send = bank.add_memory(kJob, sends_[rank]).value();
      call.receive = bank.add_memory(kJob, receives_[rank]).value();
      call.scratch = bank.add_memory(kJob, scratches_[rank]).value();
      call.type = type;
      auto sequence = lower_schedule(one, shape, call);
      if (!sequence) return sequence.status();
      if (Status status = bank.post(std::move(*sequence), {}); !status) return status;
    }
    return finish(purpose.ranks);
  }

  std::vector<Bytes>& sends() { return sends_; }
  std::vector<Bytes>& receives() { return receives_; }

 private:
  Status finish(std::uint32_t ranks) {
    std::uint32_t idle_rounds = 0;
    while (network_.stray_completions().size() < ranks) {
      const bool moved = network_.round(idle_rounds >= 4);
      if (!moved && idle_rounds >= 4)
        return Status(Code::internal, "no packet can move, but not all ranks have completed");
      idle_rounds = moved ? 0 : idle_rounds + 1;
    }
    for (const Completion& completion : network_.stray_completions()) {
      if (!completion.status.ok()) return completion.status;
    }
    for (int i = 0; i < 8 && network_.round(true); ++i) {
    }
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      if (network_.bank(rank).close_job(kJob) != 0)
        return Status(Code::internal, "packets are left in the buffers");
    }
    return Status();
  }

  UnitNetwork network_;
  std::vector<Bytes> sends_;
  std::vector<Bytes> receives_;
  std::vector<Bytes> scratches_;
};

schedule::Purpose purpose_of(Collective collective, std::string_view algorithm, std::uint32_t ranks,
                             std::uint32_t root) {
  schedule::Purpose purpose;
  purpose.collective = collective;
  purpose.algorithm = algorithm;
  purpose.ranks = ranks;
  purpose.root = rank_of(schedule::has_root(collective) ? root : 0);
  return purpose;
}

/// Block `number` of a buffer.
Bytes block(const Bytes& buffer, ElementType type, std::uint32_t number) {
  const std::size_t bytes = kElements * element_bytes(type);
  const auto begin = buffer.begin() + static_cast<std::ptrdiff_t>(number * bytes);
  return Bytes(begin, begin + static_cast<std::ptrdiff_t>(bytes));
}

/// Expects the results of the collectives that divide a buffer into blocks of several ranks.
void expect_blocks(LoweredRun& run, const schedule::Purpose& purpose, ElementType type,
                   const std::string& name) {
  const std::uint32_t root = index(purpose.root);
  for (std::uint32_t rank = 0; rank < purpose.ranks; ++rank) {
    if (purpose.collective == Collective::gather) {
      ASSERT_EQ(block(run.receives()[root], type, rank), run.sends()[rank]) << name;
    }
    if (purpose.collective == Collective::scatter) {
      ASSERT_EQ(run.receives()[rank], block(run.sends()[root], type, rank)) << name;
    }
    std::vector<Bytes> operands;
    for (std::uint32_t from = 0; from < purpose.ranks; ++from) {
      const Bytes& sent = run.sends()[from];
      if (purpose.collective == Collective::alltoall) {
        ASSERT_EQ(block(run.receives()[rank], type, from), block(sent, type, rank)) << name;
      }
      if (purpose.collective == Collective::reduce_scatter)
        operands.push_back(block(sent, type, rank));
    }
    if (!operands.empty()) {
      ASSERT_EQ(run.receives()[rank],
                reference_result(CollectiveKind::allreduce, Operation::sum, type, operands))
          << name;
    }
  }
}

void expect_result(LoweredRun& run, const schedule::Purpose& purpose, ElementType type,
                   const std::string& name) {
  const std::uint32_t root = index(purpose.root);
  if (purpose.collective == Collective::broadcast) {
    for (const Bytes& received : run.receives()) {
      ASSERT_EQ(received, contribution(type, kElements, root)) << name;
    }
  }
  if (purpose.collective == Collective::allgather) {
    Bytes expected;
    for (const Bytes& sent : run.sends()) expected.insert(expected.end(), sent.begin(), sent.end());
    for (const Bytes& received : run.receives()) ASSERT_EQ(received, expected) << name;
  }
  if (purpose.collective == Collective::allreduce || purpose.collective == Collective::reduce) {
    const Bytes expected =
        reference_result(CollectiveKind::allreduce, Operation::sum, type, run.sends());
    for (std::uint32_t rank = 0; rank < purpose.ranks; ++rank) {
      if (purpose.collective == Collective::reduce && rank != root) continue;
      ASSERT_EQ(run.receives()[rank], expected) << name << ", rank " << rank;
    }
  }
  expect_blocks(run, purpose, type, name);
}

TEST(FromSchedule, EveryPointToPointAlgorithmRunsOnTriggerUnits) {
  std::uint32_t ran = 0;
  for (const Collective collective :
       {Collective::barrier, Collective::broadcast, Collective::allgather, Collective::reduce,
        Collective::allreduce, Collective::alltoall, Collective::gather, Collective::scatter,
        Collective::reduce_scatter}) {
    for (const auto& algorithm : collectives::algorithms_of(collective)) {
      bool refused = false;
      for (std::uint32_t ranks = 1; ranks <= 9; ++ranks) {
        const auto purpose = purpose_of(collective, algorithm.name, ranks, ranks / 2);
        if (algorithm.restriction != nullptr && !algorithm.restriction(purpose)) continue;
        const std::string name = std::string(to_string(collective)) + " " +
                                 std::string(algorithm.name) + ", " + std::to_string(ranks);
        LoweredRun run(ranks, ranks);
        const Status status = run.run(purpose, ElementType::int32);
        refused = refused || status.code() == Code::unsupported;
        if (status.code() == Code::unsupported) continue;
        ASSERT_TRUE(status.ok()) << name << ": " << status.to_string();
        expect_result(run, purpose, ElementType::int32, name);
        if (HasFatalFailure()) return;
        ++ran;
      }
      if (algorithm.name.find("multicast") != std::string_view::npos) {
        EXPECT_TRUE(refused) << to_string(collective) << " " << algorithm.name;
      }
    }
  }
  EXPECT_GT(ran, 150u);
}

TEST(FromSchedule, RabenseifnerResult_hasTheSameBits_forEveryOrderOfArrival) {
  for (const std::uint32_t ranks : {2u, 5u, 8u, 12u, 16u}) {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      const auto purpose = purpose_of(Collective::allreduce, "rabenseifner", ranks, 0);
      LoweredRun run(ranks, seed);
      const Status status = run.run(purpose, ElementType::float32);
      ASSERT_TRUE(status.ok()) << status.to_string();
      expect_result(run, purpose, ElementType::float32, std::to_string(ranks) + " ranks");
      if (HasFatalFailure()) return;
    }
  }
}

TEST(FromSchedule, TaskThatNoDescriptorCanExpress_isNamedInTheError) {
  LoweredRun run(4, 1);
  const Status status =
      run.run(purpose_of(Collective::allgather, "multicast", 4, 0), ElementType::int8);
  EXPECT_EQ(status.code(), Code::unsupported);
  EXPECT_NE(status.message().find("rank 0 task"), std::string::npos) << status.message();
}

}  // namespace
}  // namespace tutti::trigger
