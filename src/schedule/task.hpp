// One step of a rank's program, and the queues that contain the steps.
//
// Execution. Each rank first posts its receives: `recv` and `collect` tasks without dependencies
// precede every send ([Khalilov24] 3.3). Any other task is issued as soon as its dependencies are
// complete and its queue permits it; a task in a held queue also needs an enable ([Inozemtsev12]
// 4.1).
//
// Matching. Source, destination and match slot identify a message, and a schedule uses each such
// triple once, so matching never depends on timing. A multicast chunk carries its position in the
// receive buffer and needs no match slot.
//
// Protocol. A schedule does not determine which messages are eager and which use rendezvous
// ([Inozemtsev12] 4.1); the message sizes of a shape determine this. The validator proves both
// cases: it assumes that a send completes only after its receive is posted (rendezvous), but it
// never concludes from a completed send that the receive is posted (eager).
#pragma once

#include <cstdint>

#include "schedule/buffer_slice.hpp"
#include "tutti/units.hpp"

namespace tutti::schedule {

enum class TaskKind : std::uint8_t {
  send,  ///< sends `source` to `peer`; complete once `source` may be overwritten
  recv,  ///< receives from `peer` into `target`; complete once the data has arrived
  /// Writes `source` to `target` in the memory of `peer`; complete once the data has arrived.
  write,
  read,       ///< reads `source` in the memory of `peer` into `target`
  multicast,  ///< sends `source` to all other members of its group, which store it at `target`
  collect,    ///< receives into `target` the chunks that other ranks multicast, in any order
  wait,       ///< waits for `count` further completions on the completion queue `object`
  /// Folds the messages with the named keys into `target`, in the order of the keys [Xu25] 1.2.
  wait_keys,
  /// Releases the next `count` entries of the held queue `object` (send_enable, recv_enable).
  enable,
  /// Combines `target` and `source` by the call's operator and stores the result in `target`.
  reduce,
  copy,    ///< copies `source` to `target`
  signal,  ///< sends a message without bytes to `peer`, such as a CTS or an activation
};
inline constexpr std::uint32_t kTaskKinds = 12;

const char* to_string(TaskKind kind);

/// The position of the new operand in a reduction. If all reductions use `after` and combine the
/// operands in rank order, the result is also correct for operators that do not commute.
enum class Side : std::uint8_t {
  after,   ///< target = target op source
  before,  ///< target = source op target
  none,    ///< target = source, without the operator (wait_keys only)
};

const char* to_string(Side side);

/// How a queue issues and completes its entries.
enum class QueueKind : std::uint8_t {
  free,  ///< queue whose tasks are ordered only by their dependencies
  send,  ///< send queue of a connection to `peer`; entries are issued and completed in order
  /// Receive queue of a connection from `peer`; entries are issued and completed in order.
  receive,
  /// Management queue of the device. An entry is issued once the previous entry is complete
  /// [Inozemtsev12] 3.
  management,
  host,  ///< queue of copies and reductions that the host's processor runs one after the other
};

const char* to_string(QueueKind kind);

/// Indices of tasks and queues within one schedule.
using TaskIndex = std::uint32_t;
using QueueIndex = std::uint16_t;
inline constexpr std::uint16_t kNoIndex = 0xffff;

/// The kind of messages that a queue carries. Data and CTS messages of one connection may overtake
/// each other and therefore use separate queues ([Inozemtsev12] 4.1).
enum class Channel : std::uint8_t { data, cts };

const char* to_string(Channel channel);

struct Queue {
  QueueKind kind = QueueKind::free;
  Channel channel = Channel::data;
  bool held = false;  ///< true: a held queue, whose entries wait for an enable
  /// Completion queue that counts the completed entries of this queue; kNoIndex: none.
  std::uint16_t completions = kNoIndex;
  Rank peer = kNoRank;  ///< peer of a send or receive queue

  friend bool operator==(const Queue&, const Queue&) = default;
};

/// Identifies a message that waits at its receiver without a posted receive ([Xu25] 1.2). The
/// message comes from a `send` task with `keyed`, or from a `signal` task whose key a `wait_keys`
/// task names.
struct Key {
  Rank source = kNoRank;
  std::uint32_t slot = 0;

  friend bool operator==(const Key&, const Key&) = default;
};

/// One step of a schedule. Fields that a kind does not use keep their defaults.
struct Task {
  TaskKind kind = TaskKind::copy;
  Side side = Side::after;  ///< position of the new operand of a reduce or wait_keys
  /// True for a send whose message needs no posted receive: the message waits at the receiver under
  /// the key (source, slot).
  bool keyed = false;
  /// True for a signal that adds 1 to a counter of `peer` by a remote atomic ([OFED-AT]), and for a
  /// wait_keys task without data that waits until the named ranks have added to the counter.
  bool counted = false;
  QueueIndex queue = 0;
  /// Index of the object on which the task acts: the completion queue of a wait, the queue of an
  /// enable, or the group of a multicast or collect.
  std::uint16_t object = 0;
  std::uint16_t round = 0;  ///< index of the task's round; a run does not order tasks by round
  Rank peer = kNoRank;
  std::uint32_t slot = 0;  ///< match slot of the message
  /// Number of completions that a wait awaits, or of entries that an enable releases.
  std::uint32_t count = 0;
  BufferSlice source;
  BufferSlice target;
  std::uint32_t first_dependency = 0;  ///< index into Schedule::dependencies
  std::uint32_t dependency_count = 0;
  std::uint32_t first_key = 0;  ///< index into Schedule::keys
  std::uint32_t key_count = 0;

  friend bool operator==(const Task&, const Task&) = default;
};

/// True if the task sends a message that some task of `peer` receives.
constexpr bool sends_message(TaskKind kind) {
  return kind == TaskKind::send || kind == TaskKind::signal;
}
/// True if the task receives by a posted receive, unlike a wait_keys.
constexpr bool is_posted_receive(TaskKind kind) {
  return kind == TaskKind::recv || kind == TaskKind::collect;
}
/// True if the task reads `source` in its own rank's memory.
constexpr bool reads_source(TaskKind kind) {
  return kind == TaskKind::send || kind == TaskKind::write || kind == TaskKind::multicast ||
         kind == TaskKind::reduce || kind == TaskKind::copy;
}
/// True if the task writes `target` in its own rank's memory.
constexpr bool writes_target(TaskKind kind) {
  return kind == TaskKind::recv || kind == TaskKind::read || kind == TaskKind::collect ||
         kind == TaskKind::wait_keys || kind == TaskKind::reduce || kind == TaskKind::copy;
}

}  // namespace tutti::schedule
