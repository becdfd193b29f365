// Writes a schedule: one call per task, in the order in which the algorithm performs them.
//
//   Builder b(purpose);
//   b.copy(b.send_block(), b.receive_block(me));
//   for (std::uint32_t step = 0; step + 1 < ranks; ++step) {
//     b.round(step).send(right, b.receive_block(mod(me - step)));
//     b.recv(left, b.receive_block(mod(me - step - 1)));
//   }
//   return b.finish();
//
// The builder derives data dependencies from what each task reads and writes, in list order: a read
// follows the writes before it, a write follows the reads and writes before it. The derived
// dependencies also hold for in-place calls. after() adds dependencies that do not follow from
// data, such as the rounds of a barrier.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <tuple>
#include <vector>

#include "schedule/schedule.hpp"
#include "schedule/shape.hpp"

namespace tutti::schedule {

/// Refers to a task that is already in the list; a default-constructed TaskRef refers to no task.
class TaskRef {
 public:
  constexpr TaskRef() = default;
  constexpr explicit TaskRef(TaskIndex at) : at_(at) {}
  constexpr bool none() const { return at_ == kNone; }
  constexpr TaskIndex at() const { return at_; }

 private:
  static constexpr TaskIndex kNone = 0xffff'ffffu;
  TaskIndex at_ = kNone;
};

class Builder {
 public:
  explicit Builder(Purpose purpose);

  // ---- Places -----------------------------------------------------------------------------------
  BufferSlice send_block(std::uint32_t block = 0) const { return block_of(Buffer::send, block); }
  BufferSlice receive_block(std::uint32_t block = 0) const {
    return block_of(Buffer::receive, block);
  }
  BufferSlice receive_blocks(std::uint32_t first, std::uint32_t count) const {
    return blocks_of(Buffer::receive, first, count);
  }
  /// Reserves new scratch blocks: no two calls return the same block.
  BufferSlice scratch(std::uint32_t blocks = 1);

  // ---- Settings of the tasks that follow --------------------------------------------------------
  Builder& round(std::uint32_t number);
  /// Makes the next task depend on `tasks` as well.
  Builder& after(std::initializer_list<TaskRef> tasks);
  Builder& after(TaskRef task) { return after({task}); }
  /// Adds a queue and returns its index. Queue 0 is a free queue that exists from the start; tasks
  /// enter it until `on` names another queue.
  QueueIndex queue(const Queue& queue);
  /// Puts all following tasks into the queue with index `queue`.
  Builder& on(QueueIndex queue);
  /// Stops deriving dependencies from the data that tasks access, for a lowering that adds all
  /// dependencies itself.
  Builder& explicit_only();

  // ---- Tasks ------------------------------------------------------------------------------------
  TaskRef send(Rank to, const BufferSlice& source);
  TaskRef recv(Rank from, const BufferSlice& target);
  /// Sends a message that waits at the receiver until a `wait_keys` task of the receiver names the
  /// message's key.
  TaskRef send_keyed(Rank to, const BufferSlice& source);
  TaskRef signal(Rank to);
  TaskRef recv_signal(Rank from) { return recv(from, BufferSlice()); }
  /// Adds 1 to a counter of rank `at`. A `wait_counted` task of that rank waits for this addition.
  TaskRef count(Rank at);
  TaskRef write(Rank at, const BufferSlice& source, const BufferSlice& target);
  TaskRef read(Rank at, const BufferSlice& source, const BufferSlice& target);
  TaskRef multicast(const BufferSlice& source, const BufferSlice& target, std::uint16_t group = 0);
  TaskRef collect(const BufferSlice& target, std::uint16_t group = 0);
  TaskRef copy(const BufferSlice& source, const BufferSlice& target);
  TaskRef reduce(const BufferSlice& source, const BufferSlice& target, Side side = Side::after);
  /// Folds the next message of each rank in `sources` into `target`, in the order of `sources`.
  TaskRef wait_keys(const std::vector<Rank>& sources, const BufferSlice& target, Side side);
  /// Waits until each rank of `sources` has added to the counter of this rank.
  TaskRef wait_counted(const std::vector<Rank>& sources);
  TaskRef wait(std::uint16_t completions, std::uint32_t count);
  TaskRef enable(QueueIndex queue, std::uint32_t count);
  /// Adds a task of any kind. The caller must have set its match slot.
  TaskRef add(Task task);

  const Purpose& purpose() const { return program_.purpose; }
  std::uint32_t ranks() const { return program_.purpose.ranks; }
  std::uint32_t me() const { return index(program_.purpose.rank); }
  bool is_root() const { return program_.purpose.rank == program_.purpose.root; }
  /// The rank that is `distance` ranks to the right of this one in the ring, or to the left if
  /// `distance` is negative.
  Rank around(std::int64_t distance) const;

  Result<Schedule> finish();

 private:
  /// An access of a task to a buffer slice. It is forgotten once a later task overwrites the whole
  /// slice.
  struct Access {
    TaskIndex task;
    BufferSlice place;
    bool writes;
  };

  /// The two cases for which the builder derives dependencies: separate send and receive buffers,
  /// and buffers that share memory in an in-place call. A task waits for the dependencies of both
  /// cases.
  enum class World : std::uint8_t { two_buffers, in_place };

  std::uint32_t next_slot(std::map<std::uint32_t, std::uint32_t>& slots, Rank peer);
  void derive(const Task& task);
  void derive_in(World world, const Task& task);
  void depend_on_accesses(World world, const BufferSlice& place, bool writes);
  void note_access(World world, TaskIndex task, const BufferSlice& place, bool writes);
  BufferSlice place_in(World world, const BufferSlice& slice) const;

  Program program_;
  Alias alias_;
  bool derive_ = true;
  std::uint16_t round_ = 0;
  QueueIndex queue_ = 0;
  std::vector<TaskIndex> pending_dependencies_;
  std::map<std::uint32_t, std::uint32_t> send_slots_;
  std::map<std::uint32_t, std::uint32_t> receive_slots_;
  std::map<std::tuple<World, Buffer, std::uint32_t>, std::vector<Access>> accesses_;
};

}  // namespace tutti::schedule
