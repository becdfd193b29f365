// Classes that the validator's phases share: the numbering of tasks over all ranks, the grid of
// cells, and the list of findings.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/bits.hpp"
#include "schedule/shape.hpp"
#include "schedule/text.hpp"
#include "schedule/validate/finding.hpp"

namespace tutti::schedule {

/// The number of a task, consecutive over the tasks of all ranks.
using GlobalTask = std::uint32_t;

/// The schedules under validation, with their tasks numbered consecutively.
class AllRanks {
 public:
  explicit AllRanks(std::span<const Schedule> schedules);

  std::uint32_t ranks() const { return static_cast<std::uint32_t>(schedules_.size()); }
  std::uint32_t task_count() const { return bases_.back(); }
  const Schedule& at(std::uint32_t rank) const { return schedules_[rank]; }
  std::uint32_t base(std::uint32_t rank) const { return bases_[rank]; }
  std::uint32_t tasks_of(std::uint32_t rank) const { return bases_[rank + 1] - bases_[rank]; }
  std::uint32_t rank_of_task(GlobalTask task) const { return ranks_[task]; }
  TaskIndex local(GlobalTask task) const { return task - bases_[ranks_[task]]; }
  const Task& task(GlobalTask task) const { return at(ranks_[task]).tasks()[local(task)]; }
  std::string describe(GlobalTask task) const {
    return schedule::describe(at(ranks_[task]), local(task));
  }

 private:
  std::span<const Schedule> schedules_;
  std::vector<std::uint32_t> bases_;
  std::vector<std::uint32_t> ranks_;
};

/// Collects findings up to a limit.
class Findings {
 public:
  Findings(const AllRanks& all, std::vector<Finding>& out, std::size_t most)
      : all_(all), out_(out), most_(most) {}

  bool none() const { return out_.empty(); }
  bool full() const { return out_.size() >= most_; }
  /// Adds a finding; its text is the task's description followed by `text`.
  void add(Fault fault, GlobalTask task, const std::string& text);
  void add_at(Fault fault, std::uint32_t rank, const std::string& text);

 private:
  const AllRanks& all_;
  std::vector<Finding>& out_;
  std::size_t most_;
};

/// Divides a block into cells at every position at which a slice begins or ends. A task therefore
/// reads or writes whole cells only.
class Grid {
 public:
  explicit Grid(const AllRanks& all);

  std::uint32_t cells() const { return static_cast<std::uint32_t>(borders_.size()) - 1; }
  /// The cells [first, last) that a slice covers in each of its blocks.
  Range cells_of(const BufferSlice& slice) const;

 private:
  std::uint32_t find(Fraction border) const;

  std::vector<Fraction> borders_;
};

/// A message or multicast: the task that sends it and the task that receives it.
struct Delivery {
  GlobalTask sender = 0;
  GlobalTask receiver = 0;
  /// Index of the message among the keys of a wait_keys; 0 for other receivers.
  std::uint32_t key = 0;
};

/// All messages and multicasts, each with its sender and receiver.
struct Matching {
  std::vector<Delivery> messages;  ///< all messages, sorted by receiver, then by `key`
  /// One entry for each pair of a multicast and a collect that receives it.
  std::vector<Delivery> multicasts;
  /// For each task, the index in `messages` of the first message that it receives. The last of the
  /// task_count() + 1 entries is the number of messages.
  std::vector<std::uint32_t> first_message;
};

/// Phase 1 checks the buffer slices, queues and purpose of each schedule.
void check_programs(const AllRanks& all, const ValidateOptions& options, Findings& findings);
/// Phase 2 finds the sender and receiver of each message and multicast.
Matching match(const AllRanks& all, const Grid& grid, Findings& findings);

}  // namespace tutti::schedule
