// A schedule: the tasks of one rank for one collective, as plain data.
//
// A builder writes the schedule (builder.hpp), the validator proves it (validate.hpp), text.hpp
// prints and reads it, cache.hpp keeps it as a template, and shape.hpp fills it for a call. A
// schedule never changes once built, so any number of calls, threads and engines may share it.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "schedule/task.hpp"
#include "tutti/collective.hpp"
#include "tutti/status.hpp"
#include "tutti/units.hpp"

namespace tutti::schedule {

using tutti::Collective;
using tutti::has_root;
using tutti::kCollectives;
using tutti::reduces;
using tutti::to_string;

/// Finds a collective by its name; the error lists the known names.
Result<Collective> collective_named(std::string_view name);

/// Parameters of an algorithm. An algorithm ignores those that it does not use.
struct Parameters {
  std::uint32_t ports = 1;     ///< k of the k-port algorithms [Inozemtsev12] 4.1
  std::uint32_t radix = 2;     ///< radix of k-nomial trees
  std::uint32_t segments = 1;  ///< number of segments of a pipelined message
  std::uint32_t chains = 1;    ///< M of the multicast sequencer [Khalilov24] 4.1
  bool ready = false;          ///< a ready barrier precedes the first multicast [Khalilov24] 3.3
  bool handshake = false;      ///< the final handshake follows the multicast [Khalilov24] 3.3

  friend auto operator<=>(const Parameters&, const Parameters&) = default;
};

/// The use for which a schedule is built.
struct Purpose {
  Collective collective = Collective::barrier;
  std::string algorithm;
  std::uint32_t ranks = 1;
  Rank rank = rank_of(0);
  Rank root = rank_of(0);  ///< 0 for collectives without a root
  Parameters parameters{};

  friend bool operator==(const Purpose&, const Purpose&) = default;
};

/// Number of blocks that the collective gives to a buffer; 0 for scratch and none. An Allgather
/// sends one block and receives `ranks` blocks, a Broadcast or reduction has one; blocks that only
/// the root has are counted only at the root.
std::uint32_t blocks_in(const Purpose& purpose, Buffer buffer);
/// The first slot of CTS messages; data messages use the slots below.
inline constexpr std::uint32_t kCtsSlots = 0x8000'0000u;

/// The parts of a schedule while it is being written; Schedule::make turns them into a Schedule.
struct Program {
  Purpose purpose;
  std::uint32_t scratch_blocks = 0;
  std::vector<Queue> queues;
  std::vector<Task> tasks;
  std::vector<TaskIndex> dependencies;
  std::vector<Key> keys;
};

/// One message, by peer and slot, and the task that sends or receives it; for wait_keys also the
/// index of the key.
struct Match {
  std::uint32_t peer = 0;
  std::uint32_t slot = 0;
  TaskIndex task = 0;
  std::uint32_t key = 0;
};

class Schedule {
 public:
  Schedule() = default;
  /// Checks that every index is within the program and that dependencies point backwards; the error
  /// names the task. The validator decides whether the program is correct.
  static Result<Schedule> make(Program program);

  const Purpose& purpose() const { return program_.purpose; }
  Rank rank() const { return program_.purpose.rank; }
  std::uint32_t ranks() const { return program_.purpose.ranks; }

  std::span<const Task> tasks() const { return program_.tasks; }
  std::span<const Queue> queues() const { return program_.queues; }
  /// The tasks that must be complete before `task` is issued.
  std::span<const TaskIndex> dependencies(TaskIndex task) const;
  /// The tasks that depend on `task`.
  std::span<const TaskIndex> dependents(TaskIndex task) const;
  std::span<const Key> keys(TaskIndex task) const;
  /// The entries of a queue, in order.
  std::span<const TaskIndex> entries(QueueIndex queue) const;
  std::uint32_t completion_queues() const { return completion_queues_; }
  /// The messages that `recv` and `wait_keys` tasks receive, sorted by source and slot.
  std::span<const Match> arrivals() const { return arrivals_; }
  /// The index into arrivals() of the message from `source` with `slot`; none if no task receives
  /// it.
  std::optional<std::size_t> arrival_of(Rank source, std::uint32_t slot) const;
  /// The task that sends the message to `peer` with `slot`, if there is one.
  std::optional<TaskIndex> sender_of(Rank peer, std::uint32_t slot) const;

  /// Number of blocks of a buffer at this rank.
  std::uint32_t blocks(Buffer buffer) const;
  /// True if every slice is one block of the caller's buffers or a part of one. Such a schedule
  /// also serves blocks of different sizes.
  bool single_blocks() const { return single_blocks_; }

  const Program& program() const { return program_; }
  friend bool operator==(const Schedule& a, const Schedule& b);

 private:
  Status check() const;
  Status check_task(TaskIndex at) const;
  void index();
  void index_messages();

  Program program_;
  std::vector<std::uint32_t> dependent_offsets_;
  std::vector<TaskIndex> dependents_;
  std::vector<std::uint32_t> entry_offsets_;
  std::vector<TaskIndex> entries_;
  std::vector<Match> arrivals_;  ///< received messages, sorted by peer and slot like departures_
  std::vector<Match> departures_;
  std::uint32_t completion_queues_ = 0;
  bool single_blocks_ = true;
};

}  // namespace tutti::schedule
