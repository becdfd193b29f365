// A schedule: what one rank does for one collective, as plain data.
//
// It is written by a builder (builder.hpp), proved by the validator (validate.hpp), printed and
// read (text.hpp), kept as a template (cache.hpp), filled for a call (shape.hpp), and run by any
// engine. Once built it never changes, so any number of calls, threads and engines may share one.
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

/// The collective of that name, or an error that lists the known ones.
Result<Collective> collective_named(std::string_view name);

/// What an algorithm may be tuned by. Algorithms ignore what does not concern them.
struct Parameters {
  std::uint32_t ports = 1;     ///< k of the k-port algorithms (C2)
  std::uint32_t radix = 2;     ///< of k-nomial trees
  std::uint32_t segments = 1;  ///< pieces of a pipelined message
  std::uint32_t chains = 1;    ///< M of the multicast sequencer (K7)
  bool ready = false;  ///< multicast: a barrier first, where no receiver-not-ready may occur (K3)
  bool handshake = false;  ///< multicast: neighbours tell each other that they are done (K6)

  friend auto operator<=>(const Parameters&, const Parameters&) = default;
};

/// What a schedule is for.
struct Purpose {
  Collective collective = Collective::barrier;
  std::string algorithm;
  std::uint32_t ranks = 1;
  Rank rank = rank_of(0);
  Rank root = rank_of(0);  ///< 0 where the collective has none
  Parameters parameters{};

  friend bool operator==(const Purpose&, const Purpose&) = default;
};

/// Blocks of a buffer that the collective itself defines; 0 for scratch and for none.
/// Allgather: one block sent, `ranks` received. Reductions, Broadcast: one block. A root's blocks
/// are counted at the root only.
std::uint32_t blocks_in(const Purpose& purpose, Buffer buffer);
/// The range of slots that CTS messages use, apart from the data's (C5).
inline constexpr std::uint32_t kCtsSlots = 0x8000'0000u;

/// The parts of a schedule, while it is written. `Schedule` is made from one and never changes.
struct Program {
  Purpose purpose;
  std::uint32_t scratch_blocks = 0;
  std::vector<Queue> queues;
  std::vector<Task> tasks;
  std::vector<TaskIndex> dependencies;
  std::vector<Key> keys;
};

/// The task that a message belongs to at its receiver, and for wait_keys which of its keys.
struct Match {
  std::uint32_t peer = 0;
  std::uint32_t slot = 0;
  TaskIndex task = 0;
  std::uint32_t key = 0;
};

class Schedule {
 public:
  Schedule() = default;
  /// Checks that every index points into the program and that dependencies point backwards; the
  /// error names the task. Whether the program is right is the validator's question.
  static Result<Schedule> make(Program program);

  const Purpose& purpose() const { return program_.purpose; }
  Rank rank() const { return program_.purpose.rank; }
  std::uint32_t ranks() const { return program_.purpose.ranks; }

  std::span<const Task> tasks() const { return program_.tasks; }
  std::span<const Queue> queues() const { return program_.queues; }
  /// Tasks that must be complete before this one is issued.
  std::span<const TaskIndex> dependencies(TaskIndex task) const;
  /// Tasks that name this one as a dependency.
  std::span<const TaskIndex> dependents(TaskIndex task) const;
  std::span<const Key> keys(TaskIndex task) const;
  /// Entries of a queue, in its order.
  std::span<const TaskIndex> entries(QueueIndex queue) const;
  std::uint32_t completion_queues() const { return completion_queues_; }
  /// What `recv` and `wait_keys` tasks take in, by source and slot.
  std::span<const Match> arrivals() const { return arrivals_; }
  /// Index into arrivals() of the message of that source and slot; none where nobody waits for it.
  std::optional<std::size_t> arrival_of(Rank source, std::uint32_t slot) const;
  /// The task that sends that message; none where there is no such message.
  std::optional<TaskIndex> sender_of(Rank peer, std::uint32_t slot) const;

  /// Blocks of a buffer at this rank.
  std::uint32_t blocks(Buffer buffer) const;
  /// Whether every segment is one block, or a part of one, of the caller's buffers: such a
  /// schedule also serves blocks of different sizes.
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
  std::vector<Match> arrivals_;  ///< sorted by peer and slot, as is the next
  std::vector<Match> departures_;
  std::uint32_t completion_queues_ = 0;
  bool single_blocks_ = true;
};

/// "rank 2 task 7 (send to 3 slot 0 from receive[1])": how every error names a task.
std::string describe(const Schedule& schedule, TaskIndex task);

}  // namespace tutti::schedule
