// A schedule: the tasks of one rank for one collective, as plain data.
//
// A builder writes the schedule, the validator proves it, the template cache stores it, and a shape
// fills in the sizes of a call. A schedule never changes once built, so any number of calls,
// threads and engines may share it.
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
  /// In k-port algorithms, the number k of sends that run concurrently in a round [Inozemtsev12]
  /// 4.1.
  std::uint32_t ports = 1;
  std::uint32_t radix = 2;     ///< radix of k-nomial trees
  std::uint32_t segments = 1;  ///< number of segments of a pipelined message
  std::uint32_t chains = 1;    ///< number of chains of the multicast sequencer [Khalilov24] 4.1
  /// True: a ready barrier precedes the first multicast [Khalilov24] 3.3.
  bool ready = false;
  bool handshake = false;  ///< true: the handshake follows the multicast [Khalilov24] 3.3

  friend auto operator<=>(const Parameters&, const Parameters&) = default;
};

/// The purpose for which a schedule is built.
struct Purpose {
  Collective collective = Collective::barrier;
  std::string algorithm;
  std::uint32_t ranks = 1;
  Rank rank = rank_of(0);
  Rank root = rank_of(0);  ///< root of the collective; 0 if the collective has none
  Parameters parameters{};

  friend bool operator==(const Purpose&, const Purpose&) = default;
};

/// Number of blocks of a buffer at this rank; 0 for `scratch` and `none`. The receive buffer of an
/// Allgather, for example, has one block for each rank, and that of a Gather has blocks only at the
/// root.
std::uint32_t blocks_in(const Purpose& purpose, Buffer buffer);
/// The first match slot for CTS messages; data messages use the slots below it. The last one is
/// that of ready-to-sends (protocol::kReadySlot).
inline constexpr std::uint32_t kCtsSlots = 0x8000'0000u;
/// No message has this slot, because its CTS would have the slot of ready-to-sends. All bits below
/// kCtsSlots are set.
inline constexpr std::uint32_t kReservedSlot = kCtsSlots - 1;

/// The contents of a schedule while a builder writes it; Schedule::make turns them into a Schedule.
struct Program {
  Purpose purpose;
  std::uint32_t scratch_blocks = 0;
  std::vector<Queue> queues;
  std::vector<Task> tasks;
  std::vector<TaskIndex> dependencies;
  std::vector<Key> keys;
};

/// A message of a schedule, named by peer and match slot, with the task that sends or receives it.
/// If that task is a wait_keys, `key` is the index of the message among the task's keys.
struct Match {
  std::uint32_t peer = 0;
  std::uint32_t slot = 0;
  TaskIndex task = 0;
  std::uint32_t key = 0;
};

class Schedule {
 public:
  Schedule() = default;
  /// Checks that every index exists and that each task depends only on tasks before it; the error
  /// names the task. Only the validator can tell whether the schedule is correct.
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
  /// The tasks of a queue, in the order of the task list.
  std::span<const TaskIndex> entries(QueueIndex queue) const;
  std::uint32_t completion_queues() const { return completion_queues_; }
  /// The messages that `recv` and `wait_keys` tasks receive, sorted by source and match slot.
  std::span<const Match> arrivals() const { return arrivals_; }
  /// The index into arrivals() of the message from `source` with match slot `slot`; nothing if no
  /// task receives it.
  std::optional<std::size_t> arrival_of(Rank source, std::uint32_t slot) const;
  /// The task that sends the message to `peer` with match slot `slot`, if there is one.
  std::optional<TaskIndex> sender_of(Rank peer, std::uint32_t slot) const;

  /// Number of blocks that a buffer has at this rank.
  std::uint32_t blocks(Buffer buffer) const;
  /// True if every buffer slice lies within one block of the caller's buffers. Such a schedule also
  /// works with blocks of different sizes.
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
  /// Messages that the rank receives (arrivals_) and sends (departures_), each list sorted by peer
  /// and match slot.
  std::vector<Match> arrivals_;
  std::vector<Match> departures_;
  std::uint32_t completion_queues_ = 0;
  bool single_blocks_ = true;
};

}  // namespace tutti::schedule
