// Tests that every algorithm moves the right bytes, for 1 to 16 ranks, odd sizes, and random legal
// orders drawn from seeds.
#include <gtest/gtest.h>

#include "base/random.hpp"
#include "collective_call.hpp"
#include "purposes.hpp"
#include "schedule/core_direct/core_direct.hpp"
#include "schedule/text.hpp"
#include "schedule/validate/validate.hpp"

namespace tutti::schedule {
namespace {

using collectives::AlgorithmEntry;
using collectives::build_all;

constexpr std::uint32_t kMaxRanks = 16;

/// Calls with odd sizes, which cannot be divided evenly into parts.
std::vector<CallOptions> calls_of(const Purpose& purpose, bool rank_ordered) {
  std::vector<CallOptions> calls;
  const std::uint64_t element = reduces(purpose.collective) ? 8 : 1;
  for (std::uint64_t elements : {1, 7, 37}) {
    CallOptions options;
    options.block_bytes = elements * element;
    options.element_bytes = element;
    options.ordered_fold = rank_ordered;
    options.varying = varies(purpose.collective);
    options.seed = draw(elements, purpose.ranks, index(purpose.root));
    calls.push_back(options);
  }
  return calls;
}

class MovesTheBytes : public testing::TestWithParam<AlgorithmEntry> {};

TEST_P(MovesTheBytes, ResultOfEachAlgorithm_equalsTheDefinitionOfTheCollective) {
  for (std::uint32_t ranks = 1; ranks <= kMaxRanks; ++ranks) {
    for (const Purpose& purpose : purposes_of(GetParam(), ranks)) {
      SCOPED_TRACE(case_name(purpose));
      const Result<std::vector<Schedule>> schedules = build_all(purpose);
      ASSERT_TRUE(schedules.ok()) << schedules.status().to_string();
      const bool ordered = validate(*schedules).rank_ordered;
      for (CallOptions options : calls_of(purpose, ordered)) {
        const Status status = call(*schedules, options);
        ASSERT_TRUE(status.ok()) << options.block_bytes << " bytes: " << status.to_string();
        if (!has_in_place(purpose.collective)) continue;
        options.in_place = true;
        const Status in_place = call(*schedules, options);
        ASSERT_TRUE(in_place.ok())
            << options.block_bytes << " bytes in place: " << in_place.to_string();
      }
    }
  }
}

std::string name_of(const testing::TestParamInfo<AlgorithmEntry>& info) {
  return test_name(info.param);
}

INSTANTIATE_TEST_SUITE_P(Registry, MovesTheBytes,
                         testing::ValuesIn(collectives::algorithms().begin(),
                                           collectives::algorithms().end()),
                         name_of);

/// Makes one random change to a program.
Program mutated(Program program, Random& random) {
  if (program.tasks.empty()) return program;
  Task& task = program.tasks[random.below(program.tasks.size())];
  const std::uint32_t ranks = program.purpose.ranks;
  switch (random.below(7)) {
    case 0:  // a task loses a dependency
      if (task.dependency_count > 0) --task.dependency_count;
      break;
    case 1:
      task.peer = rank_of((index(task.peer) + 1 + random.below(ranks)) % ranks);
      break;
    case 2:
      task.source.first_block = static_cast<std::uint32_t>(random.below(ranks));
      break;
    case 3:
      task.target.first_block = static_cast<std::uint32_t>(random.below(ranks));
      break;
    case 4:
      task.side = task.side == Side::after ? Side::before : Side::after;
      break;
    case 5: {  // two tasks swap their sources
      Task& other = program.tasks[random.below(program.tasks.size())];
      std::swap(task.source, other.source);
      break;
    }
    default:  // a task is removed
      task = Task();
      task.source = task.target = BufferSlice();
      break;
  }
  return program;
}

/// Makes one random change to the queues of a program, or to the tasks that use them.
Program with_changed_queues(Program program, Random& random) {
  const std::size_t at = random.below(program.tasks.size());
  Task& task = program.tasks[at];
  switch (random.below(5)) {
    case 0:
      for (Queue& queue : program.queues) queue.held = queue.held && random.below(3) != 0;
      break;
    case 1: {  // two queues report to one completion queue
      const std::size_t to = 1 + random.below(program.queues.size() - 1);
      const std::uint16_t completions = program.queues[to].completions;
      program.queues[1 + random.below(program.queues.size() - 1)].completions = completions;
      break;
    }
    case 2:
      if (task.kind == TaskKind::wait) --task.count;
      break;
    case 3:  // a task is swapped with the next one
      std::swap(task, program.tasks[std::min(at + 1, program.tasks.size() - 1)]);
      break;
    default:
      if (task.kind == TaskKind::wait || task.kind == TaskKind::enable) task = Task();
      break;
  }
  // A queue that is not held needs no enable, so the enable is removed.
  for (Task& other : program.tasks) {
    if (other.kind != TaskKind::enable || program.queues[other.object].held) continue;
    const QueueIndex queue = other.queue;
    other = Task();
    other.queue = queue;
  }
  return program;
}

/// Runs the schedules in several random orders. True if one run gives a wrong result or comes to a
/// standstill.
bool goes_wrong(const std::vector<Schedule>& schedules, CallOptions options) {
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    options.seed = seed;
    if (!call(schedules, options)) return true;
  }
  return false;
}

/// Number of changed schedules that the validator refused, and number of changed schedules that
/// failed in the interpreter.
struct Tally {
  std::uint32_t refused = 0;
  std::uint32_t failed = 0;
};

using Change = Program (*)(Program, Random&);

/// Makes a random change to one of the schedules and compares the verdicts of validator and
/// interpreter.
void compare_verdicts(std::vector<Schedule> schedules, Change change, Random& random,
                      Tally& tally) {
  const Purpose purpose = schedules.front().purpose();
  const std::size_t victim = random.below(purpose.ranks);
  const Result<Schedule> changed = Schedule::make(change(schedules[victim].program(), random));
  if (!changed) return;
  schedules[victim] = *changed;
  ValidateOptions options;
  options.varying = varies(purpose.collective) && schedules[0].queues().size() == 1;
  const Validation validation = validate(schedules, options);
  tally.refused += validation.ok() ? 0 : 1;
  // A schedule with a structural fault cannot be run.
  if (!validation.ok() && validation.findings.front().fault <= Fault::queue) return;
  CallOptions call_options = calls_of(purpose, validation.rank_ordered).back();
  call_options.varying = options.varying;
  const bool wrong = goes_wrong(schedules, call_options);
  tally.failed += wrong ? 1 : 0;
  EXPECT_FALSE(wrong && validation.ok()) << "the validator accepted a schedule that fails:\n"
                                         << to_text(*changed);
}

// The validator must refuse each changed schedule that gives a wrong result or comes to a
// standstill in the interpreter.
TEST(TheValidator, EveryChangedScheduleThatFailsInTheInterpreter_isRefused) {
  constexpr std::uint32_t kChangesEach = 12;
  Tally tally;
  for (const AlgorithmEntry& entry : collectives::algorithms()) {
    for (std::uint32_t ranks = 2; ranks <= 6; ++ranks) {
      for (const Purpose& purpose : purposes_of(entry, ranks)) {
        SCOPED_TRACE(case_name(purpose));
        const Result<std::vector<Schedule>> right = build_all(purpose);
        ASSERT_TRUE(right.ok());
        Random random(draw(ranks, index(purpose.root), purpose.algorithm.size(), tally.refused));
        for (std::uint32_t n = 0; n < kChangesEach; ++n)
          compare_verdicts(*right, mutated, random, tally);
        if (HasFailure()) return;
      }
    }
  }
  // The test proves something only if the validator refuses many changes and many changes fail in
  // the interpreter.
  EXPECT_GT(tally.refused, 2000u);
  EXPECT_GT(tally.failed, 300u);
}

// The changes concern held queues, enables, waits and completion queues.
TEST(TheValidator, ScheduleWithChangedQueues_thatFailsInTheInterpreter_isRefused) {
  constexpr std::uint32_t kChangesEach = 40;
  Tally tally;
  for (const AlgorithmEntry& entry : collectives::algorithms()) {
    for (std::uint32_t ranks = 2; ranks <= 5; ++ranks) {
      const std::vector<Purpose> purposes = purposes_of(entry, ranks);
      if (purposes.empty()) continue;
      for (Transfer transfer : {Transfer::eager, Transfer::rendezvous}) {
        SCOPED_TRACE(case_name(purposes.back()));
        const Result<std::vector<Schedule>> built = build_all(purposes.back());
        ASSERT_TRUE(built.ok());
        std::vector<Schedule> lowered;
        for (const Schedule& schedule : *built) {
          Result<Schedule> one = lower_to_core_direct(schedule, {transfer, true});
          if (one) lowered.push_back(std::move(*one));
        }
        if (lowered.size() < ranks) continue;  // multicast cannot be lowered (translated to queues)
        Random random(draw(ranks, entry.name.size(), tally.refused, tally.failed));
        for (std::uint32_t n = 0; n < kChangesEach; ++n)
          compare_verdicts(lowered, with_changed_queues, random, tally);
        if (HasFailure()) return;
      }
    }
  }
  EXPECT_GT(tally.refused, 1000u);
  EXPECT_GT(tally.failed, 100u);
}

}  // namespace
}  // namespace tutti::schedule
