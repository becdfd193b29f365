// Tests the task board, which decides which task may be issued. The tests run the schedules of
// every algorithm, with messages that arrive in any order.
#include "schedule/task_board.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <tuple>
#include <vector>

#include "collectives/registry.hpp"
#include "schedule/builder.hpp"
#include "schedule/core_direct/core_direct.hpp"
#include "schedule/text.hpp"

namespace tutti::schedule {
namespace {

// Key of a message: source, destination and match slot.
using Message = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>;

/// Runs all ranks of a collective on task boards. Tasks end in an order drawn from the seed.
class AllRanksRun {
 public:
  AllRanksRun(const std::vector<Schedule>& schedules, std::uint64_t seed)
      : schedules_(schedules), boards_(schedules.size()), random_(seed) {
    for (std::size_t r = 0; r < schedules.size(); ++r) boards_[r].reset(schedules[r]);
  }

  /// Runs until no task can end; returns whether every task of every rank is complete.
  bool finish() {
    while (true) {
      for (std::uint32_t r = 0; r < boards_.size(); ++r) {
        for (TaskIndex t = 0; boards_[r].next(t);) issue(r, t);
      }
      if (open_.empty()) break;
      const std::size_t at = random_() % open_.size();
      std::swap(open_[at], open_.back());
      const auto [rank, task] = open_.back();
      open_.pop_back();
      boards_[rank].complete(task);
    }
    return std::all_of(boards_.begin(), boards_.end(),
                       [](const TaskBoard& board) { return board.done(); });
  }

 private:
  void issue(std::uint32_t rank, TaskIndex at) {
    const Schedule& schedule = schedules_[rank];
    for (const TaskIndex before : schedule.dependencies(at))
      EXPECT_TRUE(boards_[rank].is_complete(before)) << describe(schedule, at);
    const Task& task = schedule.tasks()[at];
    if (sends_message(task.kind)) {
      sent_.insert({rank, index(task.peer), task.slot});
      open_.emplace_back(rank, at);
      wake({rank, index(task.peer), task.slot});
    } else if (task.kind == TaskKind::recv) {
      wait_for(rank, at, {{index(task.peer), rank, task.slot}});
    } else if (task.kind == TaskKind::wait_keys) {
      std::set<Message> messages;
      for (const Key& key : schedule.keys(at)) messages.insert({index(key.source), rank, key.slot});
      wait_for(rank, at, messages);
    } else {
      // In this test, a multicast or collect task completes without its partners.
      open_.emplace_back(rank, at);
    }
  }
  void wait_for(std::uint32_t rank, TaskIndex at, std::set<Message> messages) {
    std::erase_if(messages, [&](const Message& one) { return sent_.count(one) != 0; });
    if (messages.empty()) {
      open_.emplace_back(rank, at);
    } else {
      waiting_[{rank, at}] = std::move(messages);
    }
  }
  void wake(const Message& message) {
    for (auto at = waiting_.begin(); at != waiting_.end();) {
      at->second.erase(message);
      if (at->second.empty()) {
        open_.emplace_back(at->first);
        at = waiting_.erase(at);
      } else {
        ++at;
      }
    }
  }

  const std::vector<Schedule>& schedules_;
  std::vector<TaskBoard> boards_;
  std::mt19937_64 random_;
  std::set<Message> sent_;
  std::map<std::pair<std::uint32_t, TaskIndex>, std::set<Message>> waiting_;
  std::vector<std::pair<std::uint32_t, TaskIndex>> open_;
};

TEST(TaskBoard, EveryAlgorithm_whoseTasksCompleteInRandomOrder_finishes) {
  for (const collectives::AlgorithmEntry& entry : collectives::algorithms()) {
    std::uint32_t numbers_of_ranks = 0;
    for (std::uint32_t ranks = 1; ranks <= 9; ++ranks) {
      Purpose purpose{.collective = entry.collective,
                      .algorithm = std::string(entry.name),
                      .ranks = ranks,
                      .rank = Rank{0},
                      .root = rank_of(has_root(entry.collective) ? ranks - 1 : 0),
                      .parameters = {.segments = 3, .ready = true, .handshake = true}};
      const auto schedules = collectives::build_all(purpose);
      if (!schedules) {
        ASSERT_TRUE(entry.restriction != nullptr && !entry.restriction(purpose).ok())
            << schedules.status().to_string();
        continue;
      }
      ++numbers_of_ranks;
      for (std::uint64_t seed = 0; seed < 10; ++seed) {
        EXPECT_TRUE(AllRanksRun(*schedules, seed).finish())
            << to_string(entry.collective) << " " << entry.name << " P=" << ranks;
      }
    }
    EXPECT_GT(numbers_of_ranks, 0u) << to_string(entry.collective) << " " << entry.name;
  }
}

/// A schedule of one rank that consists of copies between scratch blocks.
struct Copies {
  Builder builder{Purpose{.collective = Collective::barrier, .algorithm = "test"}};
  BufferSlice from = builder.scratch();

  Copies() { builder.explicit_only(); }
  TaskRef add(QueueIndex queue) {
    builder.on(queue);
    return builder.copy(from, builder.scratch());
  }
};

TEST(TaskBoard, HeldQueue_runsAfterItsEnable_andAWaitTaskAfterItsCompletions) {
  Copies copies;
  const QueueIndex held = copies.builder.queue(
      {.kind = QueueKind::send, .held = true, .completions = 0, .peer = Rank{0}});
  const QueueIndex management = copies.builder.queue({.kind = QueueKind::management});
  for (int i = 0; i < 3; ++i) copies.add(held);  // tasks 0, 1 and 2: copies in the held queue
  copies.builder.on(management);
  copies.builder.enable(held, 2);  // task 3
  copies.builder.wait(0, 2);       // task 4
  copies.builder.enable(held, 1);  // task 5
  const auto schedule = copies.builder.finish();
  ASSERT_TRUE(schedule.ok()) << schedule.status().to_string();
  TaskBoard board;
  for (int again = 0; again < 2; ++again) {
    board.reset(*schedule);
    TaskIndex task = 99;
    ASSERT_TRUE(board.next(task));
    EXPECT_EQ(task, 0u);
    ASSERT_TRUE(board.next(task));
    EXPECT_EQ(task, 1u);
    EXPECT_FALSE(board.next(task)) << "the third copy must wait until it is released";
    board.complete(1);
    EXPECT_FALSE(board.is_complete(1)) << "a send queue must complete its entries in order";
    EXPECT_FALSE(board.next(task));
    board.complete(0);
    EXPECT_TRUE(board.is_complete(1));
    ASSERT_TRUE(board.next(task));
    EXPECT_EQ(task, 2u);
    EXPECT_FALSE(board.done());
    board.complete(2);
    EXPECT_TRUE(board.done());
  }
}

TEST(TaskBoard, HostQueueRunsOneTaskAtATime) {
  Copies copies;
  const QueueIndex host = copies.builder.queue({.kind = QueueKind::host});
  for (int i = 0; i < 3; ++i) copies.add(host);
  const auto schedule = copies.builder.finish();
  ASSERT_TRUE(schedule.ok());
  TaskBoard board;
  board.reset(*schedule);
  for (TaskIndex expected = 0; expected < 3; ++expected) {
    TaskIndex task = 99;
    ASSERT_TRUE(board.next(task));
    EXPECT_EQ(task, expected);
    TaskIndex more = 99;
    EXPECT_FALSE(board.next(more));
    board.complete(task);
  }
  EXPECT_TRUE(board.done());
}

}  // namespace
}  // namespace tutti::schedule
