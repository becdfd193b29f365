// Tests schedules that are translated ("lowered") to management queues, which a network interface
// carries out by waits and enables ([Inozemtsev12] 3).
#include "schedule/core_direct/core_direct.hpp"

#include <gtest/gtest.h>

#include "collective_call.hpp"
#include "purposes.hpp"
#include "schedule/resources.hpp"
#include "schedule/validate/validate.hpp"

namespace tutti::schedule {
namespace {

using collectives::AlgorithmEntry;
using collectives::build_all;

Result<std::vector<Schedule>> lower_all(const Purpose& purpose, Transfer transfer) {
  const Result<std::vector<Schedule>> built = build_all(purpose);
  if (!built) return built.status();
  std::vector<Schedule> lowered;
  for (const Schedule& schedule : *built) {
    Result<Schedule> one = lower_to_core_direct(schedule, {transfer, true});
    if (!one) return one.status();
    lowered.push_back(std::move(*one));
  }
  return lowered;
}

Purpose exchange_of_4() { return {Collective::allgather, "standard_exchange", 4, {}, {}, {}}; }

// The expected text is table I of [Inozemtsev12], line by line.
TEST(CoreDirectTable, EagerTableEqualsTableOneOfThePaper) {
  const auto lowered = lower_all(exchange_of_4(), Transfer::eager);
  ASSERT_TRUE(lowered.ok()) << lowered.status().to_string();
  EXPECT_EQ(core_direct_table(std::span(*lowered).first(2)),
            "Rank      0                        1\n"
            "Step 0    recv from 1              recv from 0\n"
            "          send to 1                send to 0\n"
            "          wait (1 recv CQ) from 1  wait (1 recv CQ) from 0\n"
            "Step 1    recv from 2              recv from 3\n"
            "          recv from 2              recv from 3\n"
            "          send to 2                send to 3\n"
            "          send to 2                send to 3\n"
            "          wait (2 recv CQ) from 2  wait (2 recv CQ) from 3\n");
}

// The expected text is table II of [Inozemtsev12].
TEST(CoreDirectTable, RendezvousTableEqualsTableTwoOfThePaper) {
  const auto lowered = lower_all(exchange_of_4(), Transfer::rendezvous);
  ASSERT_TRUE(lowered.ok()) << lowered.status().to_string();
  EXPECT_EQ(core_direct_table(std::span(*lowered).first(2)),
            "Rank      0                        1\n"
            "Step 0    recv CTS from 1          recv CTS from 0\n"
            "          wait (1 CTS CQ) from 1   wait (1 CTS CQ) from 0\n"
            "          recv from 1              recv from 0\n"
            "          send to 1                send to 0\n"
            "          wait (1 recv CQ) from 1  wait (1 recv CQ) from 0\n"
            "Step 1    recv CTS from 2          recv CTS from 3\n"
            "          wait (1 CTS CQ) from 2   wait (1 CTS CQ) from 3\n"
            "          recv from 2              recv from 3\n"
            "          send to 2                send to 3\n"
            "          wait (1 recv CQ) from 2  wait (1 recv CQ) from 3\n");
}

TEST(CoreDirectTable, FullTable_showsTheTasksThatTheShortTableOmits) {
  const auto lowered = lower_all(exchange_of_4(), Transfer::rendezvous);
  ASSERT_TRUE(lowered.ok());
  const std::string table = core_direct_table(std::span(*lowered).first(1), true);
  for (const char* line : {"send CTS to 1", "send_enable 1 to 1", "wait (1 send CQ) to 2",
                           "host copy send[0] -> receive[0]"})
    EXPECT_NE(table.find(line), std::string::npos) << line << " is not in\n" << table;
}

// The host posts all tasks at once and gets a single completion. That completion comes from the
// wait at the end of the management queue.
TEST(CoreDirect, ManagementQueueEndsWithAWait) {
  const auto lowered = lower_all({Collective::allgather, "bruck", 7, {}, {}, {}}, Transfer::eager);
  ASSERT_TRUE(lowered.ok());
  for (const Schedule& schedule : *lowered) {
    const Task& last = schedule.tasks().back();
    EXPECT_EQ(schedule.queues()[last.queue].kind, QueueKind::management);
    EXPECT_EQ(last.kind, TaskKind::wait);
    for (const Task& task : schedule.tasks()) {
      if (task.kind == TaskKind::send) {
        EXPECT_TRUE(schedule.queues()[task.queue].held);
      }
    }
  }
}

// A rank has one send queue per destination and one receive queue per source, each with its own
// completions.
TEST(CoreDirect, EachConnectionHasItsOwnQueues) {
  const auto lowered = lower_all({Collective::allgather, "bruck", 8, {}, {}, {}}, Transfer::eager);
  ASSERT_TRUE(lowered.ok());
  std::vector<std::uint16_t> completions;
  std::uint32_t sends = 0;
  std::uint32_t receives = 0;
  for (const Queue& queue : (*lowered)[0].queues()) {
    sends += queue.kind == QueueKind::send ? 1 : 0;
    receives += queue.kind == QueueKind::receive ? 1 : 0;
    if (queue.completions != kNoIndex) completions.push_back(queue.completions);
  }
  EXPECT_EQ(sends, 3u);
  EXPECT_EQ(receives, 3u);
  std::sort(completions.begin(), completions.end());
  EXPECT_EQ(std::unique(completions.begin(), completions.end()), completions.end());
}

/// Makes all receive queues of a rank report to one completion queue, and merges the waits for
/// their completions into the first wait.
Schedule with_one_completion_queue(const Schedule& schedule) {
  Program program = schedule.program();
  std::uint16_t shared = kNoIndex;
  std::vector<std::uint16_t> replaced;
  for (Queue& queue : program.queues) {
    if (queue.kind != QueueKind::receive) continue;
    if (shared == kNoIndex) shared = queue.completions;
    replaced.push_back(queue.completions);
    queue.completions = shared;
  }
  Task* first_wait = nullptr;
  for (Task& task : program.tasks) {
    const bool counts_receives =
        task.kind == TaskKind::wait &&
        std::find(replaced.begin(), replaced.end(), task.object) != replaced.end();
    if (!counts_receives) continue;
    if (first_wait == nullptr) {
      first_wait = &task;
      task.object = shared;
    } else {
      first_wait->count += task.count;
      task.kind = TaskKind::copy;  // the wait becomes a copy of 0 bytes
      task.object = 0;
      task.count = 0;
    }
  }
  return *Schedule::make(std::move(program));
}

// A wait for all completions of a shared queue proves that every message has arrived. A wait for
// fewer completions does not tell which messages have arrived.
TEST(CoreDirect, SharedCompletionQueue_givesAValidSchedule_onlyIfAllMessagesAreAwaited) {
  const auto lowered = lower_all({Collective::gather, "linear", 5, {}, {}, {}}, Transfer::eager);
  ASSERT_TRUE(lowered.ok());
  std::vector<Schedule> schedules = *lowered;
  schedules[0] = with_one_completion_queue(schedules[0]);
  const Validation validation = validate(schedules);
  EXPECT_TRUE(validation.ok()) << validation.status().message();

  // The root also copies a received block. The copy is valid after a wait for all four blocks, but
  // after a wait for only three blocks it is a race.
  const auto copying_after = [&](std::uint32_t completions) {
    Program program = schedules[0].program();
    program.scratch_blocks = 1;
    Task copy;
    copy.source = block_of(Buffer::receive, 1);
    copy.target = block_of(Buffer::scratch, 0);
    for (Task& task : program.tasks) {
      if (task.kind == TaskKind::wait && task.count == 4) {
        task.count = completions;
        copy.queue = task.queue;
      }
    }
    program.tasks.push_back(copy);
    std::vector<Schedule> changed = schedules;
    changed[0] = *Schedule::make(std::move(program));
    return validate(changed);
  };
  EXPECT_TRUE(copying_after(4).ok()) << copying_after(4).status().message();
  const Validation too_early = copying_after(3);
  ASSERT_FALSE(too_early.ok());
  EXPECT_EQ(too_early.findings.front().fault, Fault::race) << too_early.status().message();
}

TEST(CoreDirect, TaskThatAManagementQueueCannotExpress_isRefused) {
  const auto lowered =
      lower_all({Collective::broadcast, "multicast", 4, {}, {}, {}}, Transfer::eager);
  ASSERT_FALSE(lowered.ok());
  EXPECT_EQ(lowered.status().code(), Code::unsupported);
  EXPECT_NE(lowered.status().message().find("rank 0 task 0 (multicast"), std::string::npos)
      << lowered.status().message();
}

class Offloaded : public testing::TestWithParam<AlgorithmEntry> {};

// The schedules of every algorithm without multicast and keyed messages can be lowered to
// management queues, for the eager and for the rendezvous protocol. The lowered schedules are valid
// and move the right bytes.
TEST_P(Offloaded, LoweredSchedules_forBothProtocols_areValidAndMoveTheBytes) {
  for (std::uint32_t ranks = 1; ranks <= 17; ++ranks) {
    for (const Purpose& purpose : purposes_of(GetParam(), ranks)) {
      for (Transfer transfer : {Transfer::eager, Transfer::rendezvous}) {
        SCOPED_TRACE(case_name(purpose) +
                     (transfer == Transfer::eager ? ", eager" : ", rendezvous"));
        const auto lowered = lower_all(purpose, transfer);
        ASSERT_TRUE(lowered.ok()) << lowered.status().to_string();
        const Validation validation = validate(*lowered);
        ASSERT_TRUE(validation.ok()) << validation.status().message();
        CallOptions options;
        options.block_bytes = 5 * 8;
        options.element_bytes = 8;
        options.ordered_fold = validation.rank_ordered;
        options.seed = draw(ranks, index(purpose.root));
        const Status status = call(*lowered, options);
        ASSERT_TRUE(status.ok()) << status.to_string();
      }
    }
  }
}

std::vector<AlgorithmEntry> offloadable() {
  std::vector<AlgorithmEntry> entries;
  for (const AlgorithmEntry& entry : collectives::algorithms()) {
    const bool by_keys = entry.name == "linear_keyed" || entry.name == "counter";
    if (entry.name != "multicast" && !by_keys) entries.push_back(entry);
  }
  return entries;
}

std::string name_of(const testing::TestParamInfo<AlgorithmEntry>& info) {
  return test_name(info.param);
}

INSTANTIATE_TEST_SUITE_P(Registry, Offloaded, testing::ValuesIn(offloadable()), name_of);

}  // namespace
}  // namespace tutti::schedule
