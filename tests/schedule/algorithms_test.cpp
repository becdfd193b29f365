// Validates every algorithm for 1 to 64 ranks, several roots and all parameters, with two buffers
// and in place.
#include <gtest/gtest.h>

#include "purposes.hpp"
#include "schedule/validate/validate.hpp"

namespace tutti::schedule {
namespace {

using collectives::AlgorithmEntry;
using collectives::build_all;

constexpr std::uint32_t kMaxRanks = 64;

std::vector<Schedule> schedules_for(const Purpose& purpose) {
  Result<std::vector<Schedule>> built = build_all(purpose);
  EXPECT_TRUE(built.ok()) << built.status().to_string();
  return built ? std::move(*built) : std::vector<Schedule>();
}

ValidateOptions options_for(const Purpose& purpose) {
  ValidateOptions options;
  options.receives_first = purpose.parameters.ready;
  options.varying = varies(purpose.collective);
  return options;
}

class EveryAlgorithm : public testing::TestWithParam<AlgorithmEntry> {};

TEST_P(EveryAlgorithm, ScheduleIsValidForEveryNumberOfRanks) {
  std::uint32_t served = 0;
  for (std::uint32_t ranks = 1; ranks <= kMaxRanks; ++ranks) {
    for (const Purpose& purpose : purposes_of(GetParam(), ranks)) {
      SCOPED_TRACE(case_name(purpose));
      const std::vector<Schedule> schedules = schedules_for(purpose);
      const Validation validation = validate(schedules, options_for(purpose));
      ASSERT_TRUE(validation.ok()) << validation.status().message();
      ++served;
    }
  }
  EXPECT_GT(served, 0u);
}

class EveryAlgorithmInPlace : public testing::TestWithParam<AlgorithmEntry> {};

TEST_P(EveryAlgorithmInPlace, ScheduleIsValidForEveryNumberOfRanks) {
  for (std::uint32_t ranks = 1; ranks <= kMaxRanks; ++ranks) {
    for (const Purpose& purpose : purposes_of(GetParam(), ranks)) {
      SCOPED_TRACE(case_name(purpose));
      ValidateOptions options = options_for(purpose);
      options.in_place = true;
      const Validation validation = validate(schedules_for(purpose), options);
      ASSERT_TRUE(validation.ok()) << validation.status().message();
    }
  }
}

std::string name_of(const testing::TestParamInfo<AlgorithmEntry>& info) {
  return test_name(info.param);
}

std::vector<AlgorithmEntry> with_a_form_in_place() {
  std::vector<AlgorithmEntry> entries;
  for (const AlgorithmEntry& entry : collectives::algorithms()) {
    if (has_in_place(entry.collective)) entries.push_back(entry);
  }
  return entries;
}

INSTANTIATE_TEST_SUITE_P(Registry, EveryAlgorithm,
                         testing::ValuesIn(collectives::algorithms().begin(),
                                           collectives::algorithms().end()),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Registry, EveryAlgorithmInPlace, testing::ValuesIn(with_a_form_in_place()),
                         name_of);

// With P ranks in M chains, an Allgather takes ceil(P/M) turns, and each turn activates the next
// one ([Khalilov24] appendix A).
TEST(MulticastAllgather, RanksOfAChain_sendOneAfterTheOther) {
  for (std::uint32_t ranks : {1u, 4u, 7u, 16u}) {
    for (std::uint32_t chains = 1; chains <= ranks; ++chains) {
      Purpose purpose{Collective::allgather, "multicast", ranks, {}, {}, {}};
      purpose.parameters.chains = chains;
      const std::vector<Schedule> schedules = schedules_for(purpose);
      const std::uint32_t turns = (ranks + chains - 1) / chains;
      std::uint32_t heads = 0;
      for (const Schedule& schedule : schedules) {
        std::uint32_t signals = 0;
        for (TaskIndex t = 0; t < schedule.tasks().size(); ++t) {
          const Task& task = schedule.tasks()[t];
          if (task.kind == TaskKind::multicast) heads += schedule.dependencies(t).empty() ? 1 : 0;
          signals += task.kind == TaskKind::signal ? 1 : 0;
        }
        EXPECT_LE(signals, 1u);
      }
      EXPECT_EQ(heads, (ranks + turns - 1) / turns) << ranks << " ranks, " << chains << " chains";
      const Validation validation = validate(schedules);
      EXPECT_EQ(validation.rounds, turns);
      // The longest sequence of dependent messages consists of all activations and the last
      // multicast. A single rank sends no message.
      EXPECT_EQ(validation.longest_chain, ranks == 1 ? 0u : turns);
    }
  }
}

// With the handshake, no rank ends before its right neighbour has all data.
TEST(MulticastBroadcast, ScheduleWithHandshake_makesEachRankWaitForItsRightNeighbour) {
  Purpose purpose{Collective::broadcast, "multicast", 5, {}, rank_of(2), {}};
  purpose.parameters.handshake = true;
  for (const Schedule& schedule : schedules_for(purpose)) {
    const std::uint32_t me = index(schedule.rank());
    bool told = false;
    bool heard = false;
    for (TaskIndex t = 0; t < schedule.tasks().size(); ++t) {
      const Task& task = schedule.tasks()[t];
      if (task.kind == TaskKind::signal) {
        told = index(task.peer) == (me + 4) % 5;
        const TaskKind before = schedule.tasks()[schedule.dependencies(t).front()].kind;
        EXPECT_TRUE(before == TaskKind::collect || before == TaskKind::multicast);
      }
      heard = heard || (task.kind == TaskKind::recv && index(task.peer) == (me + 1) % 5);
    }
    EXPECT_TRUE(told && heard) << "rank " << me;
  }
}

}  // namespace
}  // namespace tutti::schedule
