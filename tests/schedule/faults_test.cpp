// Tests the validator with schedules that have a single planted fault. The validator must name the
// rank, the task and the kind of the fault.
#include <gtest/gtest.h>

#include <functional>

#include "purposes.hpp"
#include "schedule/builder.hpp"
#include "schedule/core_direct/core_direct.hpp"
#include "schedule/text.hpp"
#include "schedule/validate/validate.hpp"

namespace tutti::schedule {
namespace {

using collectives::build_all;

/// Valid schedules of all ranks, which a test then changes.
class Planted {
 public:
  explicit Planted(const Purpose& purpose) {
    Result<std::vector<Schedule>> built = build_all(purpose);
    EXPECT_TRUE(built.ok()) << built.status().to_string();
    if (built) schedules_ = std::move(*built);
    EXPECT_TRUE(validate(schedules_).ok()) << "the schedules are not valid before the change";
  }
  explicit Planted(std::vector<Schedule> schedules) : schedules_(std::move(schedules)) {
    EXPECT_TRUE(validate(schedules_).ok()) << validate(schedules_).status().message();
  }

  /// Changes the program of one rank.
  Planted& change(std::uint32_t rank, const std::function<void(Program&)>& edit) {
    Program program = schedules_[rank].program();
    edit(program);
    Result<Schedule> made = Schedule::make(std::move(program));
    EXPECT_TRUE(made.ok()) << made.status().to_string();
    if (made) schedules_[rank] = std::move(*made);
    return *this;
  }
  Planted& change_task(std::uint32_t rank, TaskIndex task, const std::function<void(Task&)>& edit) {
    return change(rank, [&](Program& program) { edit(program.tasks[task]); });
  }

  /// The first task of a kind at a rank, at or after task `from`.
  TaskIndex find(std::uint32_t rank, TaskKind kind, TaskIndex from = 0) const {
    for (TaskIndex t = from; t < schedules_[rank].tasks().size(); ++t) {
      if (schedules_[rank].tasks()[t].kind == kind) return t;
    }
    ADD_FAILURE() << "rank " << rank << " has no " << to_string(kind);
    return 0;
  }
  const Schedule& at(std::uint32_t rank) const { return schedules_[rank]; }

  bool valid() const { return validate(schedules_).ok(); }
  Finding first_finding(const ValidateOptions& options = {}) const {
    const Validation validation = validate(schedules_, options);
    EXPECT_FALSE(validation.ok()) << "the validator found no fault";
    return validation.ok() ? Finding() : validation.findings.front();
  }

  /// Expects exactly this fault as the first finding of the validator.
  void expect(Fault fault, std::uint32_t rank, TaskIndex task,
              const ValidateOptions& options = {}) const {
    const Finding finding = first_finding(options);
    EXPECT_EQ(to_string(finding.fault), std::string(to_string(fault))) << finding.text;
    EXPECT_EQ(index(finding.rank), rank) << finding.text;
    EXPECT_EQ(finding.task, task) << finding.text;
    const std::string name =
        "rank " + std::to_string(rank) + (task == kNoTask ? ":" : " task " + std::to_string(task));
    EXPECT_NE(finding.text.find(name), std::string::npos) << finding.text;
    // The finding's text names the task, describes the fault, and then gives the remedy.
    const std::string head = task == kNoTask ? name : describe(schedules_[rank], task) + ":";
    EXPECT_TRUE(finding.text.find(": ", head.size()) != std::string::npos ||
                finding.text.find(". ", head.size()) != std::string::npos)
        << finding.text;
  }

 private:
  std::vector<Schedule> schedules_;
};

Purpose purpose_of(Collective collective, const char* algorithm, std::uint32_t ranks,
                   std::uint32_t root = 0) {
  return {collective, algorithm, ranks, rank_of(0), rank_of(root), {}};
}

void forget_dependencies(Task& task) { task.dependency_count = 0; }

std::vector<Schedule> parse_all(std::initializer_list<const char*> tasks, const char* heading) {
  std::vector<Schedule> schedules;
  for (const char* own : tasks) {
    std::string text = heading;
    text.replace(text.find("RANK"), 4, std::to_string(schedules.size()));
    Result<Schedule> parsed = parse_schedule(text + own + "end\n");
    EXPECT_TRUE(parsed.ok()) << parsed.status().to_string();
    if (parsed) schedules.push_back(std::move(*parsed));
  }
  return schedules;
}

TEST(PlantedFault, SendOfABlockBeforeItHasArrived_isFound) {
  Planted ring(purpose_of(Collective::allgather, "ring", 4));
  ring.change_task(2, 3, forget_dependencies);  // task 3 of rank 2 is the send of round 1
  ring.expect(Fault::race, 2, 3);
}

TEST(PlantedFault, ReceivesOfTwoSwappedRounds_areFound) {
  Planted ring(purpose_of(Collective::allgather, "ring", 4));
  ring.change(1, [](Program& p) { std::swap(p.tasks[4].slot, p.tasks[6].slot); });
  // Task 6 belongs to round 2, but now receives the block of round 1.
  ring.expect(Fault::result, 1, 6);
}

TEST(PlantedFault, TwoReceivesIntoOneTarget_areFound) {
  Planted ring(purpose_of(Collective::allgather, "ring", 4));
  const BufferSlice place = ring.at(3).tasks()[2].target;
  ring.change_task(3, 6, [&](Task& t) { t.target = place; });
  ring.expect(Fault::race, 3, 6);
}

TEST(PlantedFault, SendToTheWrongPeer_isFound) {
  Planted ring(purpose_of(Collective::allgather, "ring", 4));
  ring.change_task(0, 5, [](Task& t) { t.peer = rank_of(2); });
  ring.expect(Fault::message, 0, 5);
}

TEST(PlantedFault, MissingReceive_isFound) {
  Planted ring(purpose_of(Collective::allgather, "ring", 4));
  ring.change_task(1, 6, [](Task& t) {
    t = Task();
    t.kind = TaskKind::copy;
  });
  ring.expect(Fault::message, 0, 5);
}

TEST(PlantedFault, MissingCopyOfTheOwnBlock_isFound) {
  Planted ring(purpose_of(Collective::allgather, "ring", 4));
  ring.change_task(2, 0, [](Task& t) { t.source = t.target = BufferSlice(); });
  ring.expect(Fault::result, 2, kNoTask);
}

TEST(PlantedFault, WriteIntoTheSendBufferOfTheCaller_isFound) {
  Planted ring(purpose_of(Collective::allgather, "ring", 4));
  ring.change_task(1, 2, [](Task& t) { t.target = block_of(Buffer::send, 0); });
  ring.expect(Fault::place, 1, 2);
}

TEST(PlantedFault, ReceiveBeyondTheBuffer_isFound) {
  Planted ring(purpose_of(Collective::allgather, "ring", 4));
  ring.change_task(1, 2, [](Task& t) { t.target = block_of(Buffer::receive, 4); });
  ring.expect(Fault::place, 1, 2);
}

TEST(PlantedFault, TwoMessagesInOneMatchSlot_areFound) {
  Planted ring(purpose_of(Collective::allgather, "ring", 4));
  ring.change_task(3, 5, [](Task& t) { t.slot = 0; });
  ring.expect(Fault::message, 3, 5);
}

TEST(PlantedFault, ReceiveOfMoreBytesThanAreSent_isFound) {
  Planted bruck(purpose_of(Collective::allgather, "bruck", 4));
  const TaskIndex second = bruck.find(0, TaskKind::recv, 3);
  bruck.change_task(0, second, [](Task& t) { t.target.block_count = 1; });
  bruck.expect(Fault::message, 0, second);
}

TEST(PlantedFault, RotationByOneBlockTooFew_isFound) {
  Planted bruck(purpose_of(Collective::allgather, "bruck", 5));
  const TaskIndex rotation = bruck.find(3, TaskKind::copy, 1);
  bruck.change(3, [&](Program& p) {
    p.tasks[rotation].target.first_block = 2;
    p.tasks[rotation + 1].target.block_count = p.tasks[rotation + 1].source.block_count = 2;
  });
  bruck.expect(Fault::result, 3, rotation);
}

TEST(PlantedFault, MissingLastCopy_isFound) {
  Planted bruck(purpose_of(Collective::allgather, "bruck", 5));
  const auto last = static_cast<TaskIndex>(bruck.at(2).tasks().size() - 1);
  bruck.change_task(2, last, [](Task& t) { t.source = t.target = BufferSlice(); });
  bruck.expect(Fault::result, 2, kNoTask);
}

TEST(PlantedFault, RotationBeforeTheLastRoundHasArrived_isFound) {
  Planted bruck(purpose_of(Collective::allgather, "bruck", 5));
  const TaskIndex rotation = bruck.find(3, TaskKind::copy, 1);
  bruck.change_task(3, rotation, [](Task& t) { --t.dependency_count; });
  bruck.expect(Fault::race, 3, rotation);
}

TEST(PlantedFault, ReductionThatCountsAContributionTwice_isFound) {
  Planted doubling(purpose_of(Collective::allreduce, "recursive_doubling", 4));
  // The second round now combines the block that arrived in the first round once more.
  const TaskIndex first = doubling.find(1, TaskKind::reduce);
  const TaskIndex second = doubling.find(1, TaskKind::reduce, first + 1);
  const BufferSlice received = doubling.at(1).tasks()[first].source;
  doubling.change_task(1, second, [&](Task& t) { t.source = received; });
  doubling.expect(Fault::combination, 1, second);
}

TEST(PlantedFault, ReductionWithoutOneContribution_isFound) {
  Planted tree(purpose_of(Collective::reduce, "binomial", 8, 3));
  const TaskIndex reduce = tree.find(3, TaskKind::reduce, tree.find(3, TaskKind::reduce) + 1);
  tree.change_task(3, reduce, [](Task& t) {
    t.kind = TaskKind::copy;
    t.source = t.target = BufferSlice();
  });
  tree.expect(Fault::result, 3, tree.find(3, TaskKind::reduce, reduce));
}

TEST(PlantedFault, ReductionOfTwoDifferentBlocks_isFound) {
  Planted ring(purpose_of(Collective::reduce_scatter, "ring", 4));
  const TaskIndex reduce = ring.find(2, TaskKind::reduce);
  ring.change_task(2, reduce, [](Task& t) { t.source.first_block ^= 1u; });
  ring.expect(Fault::combination, 2, reduce);
}

TEST(PlantedFault, OverwriteOfScratchThatIsStillBeingSent_isFound) {
  Planted ring(purpose_of(Collective::reduce_scatter, "ring", 6));
  // The receive of the third round overwrites the block that the second round still sends.
  const TaskIndex reuse = ring.find(4, TaskKind::recv, ring.find(4, TaskKind::recv, 4) + 1);
  ring.change_task(4, reuse, forget_dependencies);
  // Without its dependencies, the receive of the third round is posted at once. At that time the
  // receive of the first round, which writes to the same memory, has not completed.
  ring.expect(Fault::race, 4, reuse);
}

TEST(PlantedFault, ReductionOfTheWrongPartOfABlock_isFound) {
  Planted ring(purpose_of(Collective::allreduce, "ring", 4));
  const TaskIndex reduce = ring.find(1, TaskKind::reduce);
  ring.change_task(1, reduce, [](Task& t) {
    t.source.part_first ^= 1u;
    t.source.part_last = t.source.part_first + 1;
  });
  ring.expect(Fault::place, 1, reduce);
}

TEST(PlantedFault, CycleOfRanksThatReceiveBeforeTheySend_isFound) {
  Planted ring(purpose_of(Collective::allgather, "ring", 3));
  for (std::uint32_t r = 0; r < 3; ++r) {
    ring.change(r, [](Program& p) {
      std::swap(p.tasks[1], p.tasks[2]);  // the receive now comes first, and the send waits for it
      p.dependencies.push_back(1);
      p.tasks[2].first_dependency = static_cast<std::uint32_t>(p.dependencies.size() - 1);
      p.tasks[2].dependency_count = 1;
      // After the swap, task 1 is the receive, and the send of round 1 must wait for it.
      p.dependencies[p.tasks[3].first_dependency] = 1;
    });
  }
  const TaskIndex receive = 1;
  const Finding finding = ring.first_finding();
  EXPECT_EQ(finding.fault, Fault::deadlock) << finding.text;
  EXPECT_TRUE(finding.task == receive || finding.task == receive + 1) << finding.text;
  // The cycle of waiting tasks contains all three ranks.
  for (const char* rank : {"rank 0 task", "rank 1 task", "rank 2 task"})
    EXPECT_NE(finding.text.find(rank), std::string::npos) << finding.text;
}

TEST(PlantedFault, BarrierThatARankLeavesTooEarly_isFound) {
  Planted barrier(purpose_of(Collective::barrier, "dissemination", 4));
  // The signal of the second round no longer waits for that of the first round.
  const TaskIndex second = barrier.find(2, TaskKind::signal, 1);
  barrier.change_task(2, second, forget_dependencies);
  // Rank 0 gets a signal from rank 2 although rank 2 has received none from rank 1.
  barrier.expect(Fault::result, 0, kNoTask);
}

/// The schedules of Standard Exchange among 4 ranks, lowered to management queues.
Planted lowered_exchange(Transfer transfer = Transfer::eager) {
  std::vector<Schedule> lowered;
  const auto built = build_all(purpose_of(Collective::allgather, "standard_exchange", 4));
  for (const Schedule& schedule : *built)
    lowered.push_back(*lower_to_core_direct(schedule, {transfer, true}));
  return Planted(std::move(lowered));
}

/// The first wait, at or after task `from`, that counts completions of a queue that receives data.
TaskIndex find_receive_wait(const Schedule& schedule, TaskIndex from = 0) {
  for (TaskIndex t = from; t < schedule.tasks().size(); ++t) {
    const Task& task = schedule.tasks()[t];
    if (task.kind != TaskKind::wait) continue;
    for (const Queue& queue : schedule.queues()) {
      if (queue.completions == task.object && queue.kind == QueueKind::receive &&
          queue.channel == Channel::data)
        return t;
    }
  }
  ADD_FAILURE() << "the management queue has no wait for receives";
  return 0;
}

void forget_wait(Program& program, TaskIndex wait) {
  program.tasks[wait].kind = TaskKind::copy;  // the wait becomes a copy of 0 bytes
  program.tasks[wait].count = 0;
  program.tasks[wait].object = 0;
}

TEST(PlantedFault, EnableOfTheNextRoundWithoutAWait_isFound) {
  Planted exchange = lowered_exchange();
  const TaskIndex wait = find_receive_wait(exchange.at(1));
  exchange.change(1, [&](Program& p) { forget_wait(p, wait); });
  // Without the wait, the second send of round 1 may forward the block of round 0 before that block
  // has arrived.
  const Finding finding = exchange.first_finding();
  EXPECT_EQ(finding.fault, Fault::race) << finding.text;
  EXPECT_EQ(index(finding.rank), 1u) << finding.text;
  EXPECT_EQ(exchange.at(1).tasks()[finding.task].kind, TaskKind::send) << finding.text;
}

TEST(PlantedFault, WaitForOneCompletionTooMany_isFound) {
  Planted exchange = lowered_exchange();
  const TaskIndex wait = find_receive_wait(exchange.at(3));
  exchange.change_task(3, wait, [](Task& t) { ++t.count; });
  exchange.expect(Fault::queue, 3, wait);
}

TEST(PlantedFault, EnableOfFewerSendsThanAreHeld_isFound) {
  Planted exchange = lowered_exchange();
  TaskIndex enable = exchange.find(0, TaskKind::enable);
  while (exchange.at(0).tasks()[enable].count < 2)
    enable = exchange.find(0, TaskKind::enable, enable + 1);
  const QueueIndex held = exchange.at(0).tasks()[enable].object;
  const TaskIndex last = exchange.at(0).entries(held).back();
  exchange.change_task(0, enable, [](Task& t) { --t.count; });
  exchange.expect(Fault::deadlock, 0, last);
}

TEST(PlantedFault, CycleOfWaitsAndEnables_isFound) {
  Planted exchange = lowered_exchange(Transfer::rendezvous);
  // Each rank of a pair waits for the other rank's data before it releases its own sends.
  for (std::uint32_t r : {0u, 1u}) {
    exchange.change(r, [&](Program& p) {
      const TaskIndex wait = find_receive_wait(exchange.at(r));
      const TaskIndex enable = exchange.find(r, TaskKind::enable);
      ASSERT_LT(enable, wait);
      std::rotate(p.tasks.begin() + enable, p.tasks.begin() + wait, p.tasks.begin() + wait + 1);
    });
  }
  const Finding finding = exchange.first_finding();
  const std::string& text = finding.text;
  EXPECT_EQ(finding.fault, Fault::deadlock) << text;
  EXPECT_NE(text.find("enable"), std::string::npos) << text;
  EXPECT_NE(text.find("rank 0 task"), std::string::npos) << text;
  EXPECT_NE(text.find("rank 1 task"), std::string::npos) << text;
}

// A wait cannot distinguish messages, so two sources need two completion queues.
TEST(PlantedFault, WaitThatCountsTwoSourcesOnOneCompletionQueue_isFound) {
  Planted exchange = lowered_exchange();
  const Schedule& at = exchange.at(0);
  const TaskIndex wait = find_receive_wait(at);
  const TaskIndex next = find_receive_wait(at, wait + 1);
  const std::uint16_t first = at.tasks()[wait].object;
  const std::uint16_t second = at.tasks()[next].object;
  ASSERT_NE(first, second);
  exchange.change(0, [&](Program& p) {
    for (Queue& queue : p.queues) {
      if (queue.completions == second) queue.completions = first;
    }
    p.tasks[next].object = first;
  });
  // If rank 2 is faster than rank 1, the first wait counts the block of rank 2 instead of the block
  // of rank 1.
  const Finding finding = exchange.first_finding();
  EXPECT_EQ(finding.fault, Fault::race) << finding.text;
  EXPECT_EQ(index(finding.rank), 0u) << finding.text;
  EXPECT_EQ(exchange.at(0).tasks()[finding.task].kind, TaskKind::send) << finding.text;
}

TEST(PlantedFault, ReceivesInAnotherOrderThanTheSends_areFound) {
  Planted exchange = lowered_exchange();
  const Schedule& at = exchange.at(0);
  // The first receive in the queue for messages from rank 2. The test swaps it with the next one.
  TaskIndex entry = 0;
  for (std::size_t q = 0; q < at.queues().size(); ++q) {
    if (at.queues()[q].kind == QueueKind::receive && at.queues()[q].peer == rank_of(2))
      entry = at.entries(static_cast<QueueIndex>(q)).front();
  }
  exchange.change(0, [&](Program& p) { std::swap(p.tasks[entry], p.tasks[entry + 1]); });
  exchange.expect(Fault::queue, 2, [&] {
    const Schedule& peer = exchange.at(2);
    for (TaskIndex t = 0; t < peer.tasks().size(); ++t) {
      if (peer.tasks()[t].kind == TaskKind::send && peer.tasks()[t].peer == rank_of(0)) return t;
    }
    return kNoTask;
  }());
}

TEST(PlantedFault, MulticastBeforeTheReceivesArePosted_isFound) {
  Purpose purpose = purpose_of(Collective::allgather, "multicast", 4);
  purpose.parameters.ready = true;
  Planted multicast(purpose);
  const TaskIndex task = multicast.find(0, TaskKind::multicast);
  multicast.change_task(0, task, forget_dependencies);
  ValidateOptions options;
  options.receives_first = true;
  multicast.expect(Fault::early, 0, task, options);
}

TEST(PlantedFault, CollectTaskThatCoversTheOwnBlock_isFound) {
  Planted multicast(purpose_of(Collective::allgather, "multicast", 4));
  const TaskIndex collect = multicast.find(1, TaskKind::collect);
  // The collect task now also covers the rank's own block.
  multicast.change_task(1, collect, [](Task& t) { t.target.block_count = 2; });
  multicast.expect(Fault::message, 1, collect);
}

TEST(PlantedFault, MulticastThatAReceiverDoesNotCollect_isFound) {
  Planted multicast(purpose_of(Collective::allgather, "multicast", 4));
  const TaskIndex collect = multicast.find(2, TaskKind::collect);
  multicast.change_task(2, collect, [](Task& t) { --t.target.block_count; });
  // Rank 2 no longer collects the block of rank 1.
  multicast.expect(Fault::message, 1, multicast.find(1, TaskKind::multicast));
}

constexpr const char* kPutHeading =
    "tutti-schedule 1\ncollective broadcast\nalgorithm put\nranks 2 rank RANK root 0\n"
    "parameters ports=1 radix=2 segments=1 chains=1 ready=0 handshake=0\nscratch 0\nqueue 0 free\n";

/// Schedules in which the root writes into the buffer of rank 1 after a signal of rank 1, and then
/// signals the end of the write.
Planted put_broadcast() {
  return Planted(parse_all({"task 0 recv from 1 slot 0 into -\n"
                            "task 1 write at 1 receive[0] -> receive[0] after 0\n"
                            "task 2 signal to 1 slot 0 after 1\n",
                            "task 0 signal to 0 slot 0\n"
                            "task 1 recv from 0 slot 0 into -\n"},
                           kPutHeading));
}

TEST(PlantedFault, WriteBeforeThePeerHasBegun_isFound) {
  Planted put = put_broadcast();
  put.change_task(0, 1, forget_dependencies);
  put.expect(Fault::early, 0, 1);
}

TEST(PlantedFault, WriteAfterThePeerMayHaveLeft_isFound) {
  Planted put = put_broadcast();
  put.change_task(0, 2, forget_dependencies);
  put.expect(Fault::early, 0, 1);
}

TEST(PlantedFault, ReadOfABlockThatAPeerIsWriting_isFound) {
  Planted put = put_broadcast();
  put.change(1, [](Program& p) {
    p.scratch_blocks = 1;
    Task copy;
    copy.source = block_of(Buffer::receive, 0);
    copy.target = block_of(Buffer::scratch, 0);
    p.tasks.push_back(copy);
  });
  put.expect(Fault::race, 0, 1);
}

TEST(PlantedFault, UnkeyedSend_toARankThatWaitsForAKeyedMessage_isFound) {
  Planted keyed(purpose_of(Collective::reduce, "linear_keyed", 3));
  keyed.change_task(1, 0, [](Task& t) { t.keyed = false; });
  keyed.expect(Fault::message, 1, 0);
}

TEST(PlantedFault, ScheduleOfAnotherCollectiveAtOneRank_isFound) {
  Planted ring(purpose_of(Collective::allgather, "ring", 3));
  ring.change(2, [](Program& p) { p.purpose.parameters.segments = 2; });
  ring.expect(Fault::program, 2, kNoTask);
}

// The schedule would be valid if all blocks had the same size, which Allgatherv does not guarantee.
TEST(PlantedFault, BlockStoredInATargetOfAnotherSize_isFound) {
  Planted ring(purpose_of(Collective::allgatherv, "ring", 3));
  ring.change(1, [](Program& p) {
    Builder b(p.purpose);
    b.copy(b.send_block(), b.receive_block(1));
    b.send(rank_of(2), b.send_block());
    b.recv(rank_of(0), b.receive_block(2));
    b.send(rank_of(2), b.receive_block(2));
    b.copy(b.receive_block(2), b.receive_block(0));
    b.recv(rank_of(0), b.receive_block(2));
    p = b.finish()->program();
  });
  EXPECT_TRUE(ring.valid());
  ValidateOptions varying;
  varying.varying = true;
  ring.expect(Fault::result, 1, 2, varying);
}

}  // namespace
}  // namespace tutti::schedule
