// One step of a rank's program, and the queues that contain the steps.
//
// Execution. Each rank first posts its receives: `recv` and `collect` tasks without dependencies
// precede every send ([Khalilov24] 3.3). A task is then issued as soon as all its dependencies are
// complete, its queue permits it (see QueueKind), and it is released if its queue is held
// ([Inozemtsev12] 4.1). Nothing else orders tasks; on a free queue the order of the list has no
// meaning.
//
// Matching. A message is identified by (source, destination, slot), and each triple is used once.
// Matching thus never depends on timing, and a wire tag of (collective, slot) suffices. Builders
// number the slots per peer, so list order is matching order. Multicast needs no matching: a chunk
// carries its position in the receive buffer, and every group member collects it.
//
// Eager and rendezvous ([Inozemtsev12] 4.1) are not tasks: filling the template selects one of them
// for each transfer from its size, which both ends know, so one template serves all sizes. The
// validator assumes the stricter rule of either protocol: a completed send proves nothing, and a
// send may not complete before the receive is posted. For a network interface with wait and enable,
// core_direct.hpp writes the protocol out, including each CTS.
#pragma once

#include <cstdint>

#include "schedule/buffer_slice.hpp"
#include "tutti/units.hpp"

namespace tutti::schedule {

enum class TaskKind : std::uint8_t {
  send,       ///< sends `source` to `peer`; complete once `source` may be overwritten
  recv,       ///< receives from `peer` into `target`; complete once the data has arrived
  write,      ///< writes `source` to `target` at `peer`; complete once the data has arrived there
  read,       ///< reads `source` at `peer` into `target`
  multicast,  ///< sends `source` to all other members of `group`, which store it at `target`
  collect,    ///< receives into `target` all chunks that other ranks multicast, in any order
  wait,       ///< complete after `count` further completions on the completion queue `object`
  wait_keys,  ///< folds the named keyed packets into `target`, in the order named [Xu25] 1.2
  /// Releases the next `count` held entries of the queue `object` (send_enable, recv_enable).
  enable,
  reduce,  ///< combines `source` with `target` into `target` by the call's operator
  copy,    ///< copies `source` to `target`
  signal,  ///< sends no bytes to `peer`: a CTS, an activation, a round of a barrier
};
inline constexpr std::uint32_t kTaskKinds = 12;

const char* to_string(TaskKind kind);

/// The side of the operator on which new data enters. With `after` for every task and sources in
/// rank order, the result is the fold in rank order, also for an operator that does not commute.
enum class Side : std::uint8_t {
  after,   ///< target = target op source
  before,  ///< target = source op target
  none,    ///< target = source: nothing is combined (wait_keys only)
};

const char* to_string(Side side);

/// How a queue issues and completes its entries.
enum class QueueKind : std::uint8_t {
  free,     ///< tasks ordered by their dependencies only
  send,     ///< send queue of a connection to `peer`: issued and completed in order
  receive,  ///< receive queue of a connection from `peer`: issued and completed in order
  /// Device queue: an entry is issued once the entry before it is complete [Inozemtsev12] 3.
  management,
  host,  ///< like management, but run by the host's processor: copies and reductions
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
  bool held = false;  ///< true: entries wait for an enable
  /// Completion queue that counts this queue's entries, if any.
  std::uint16_t completions = kNoIndex;
  Rank peer = kNoRank;  ///< far end of a send or receive queue

  friend bool operator==(const Queue&, const Queue&) = default;
};

/// Identifies a keyed packet ([Xu25] 1.2), which a `signal` sends, or a `send` with `keyed`.
struct Key {
  Rank source = kNoRank;
  std::uint32_t slot = 0;

  friend bool operator==(const Key&, const Key&) = default;
};

/// One step of a schedule. Fields that a kind does not use keep their defaults.
struct Task {
  TaskKind kind = TaskKind::copy;
  Side side = Side::after;  ///< reduce, wait_keys: operand position of `source`
  /// For a send: the message waits at the receiver under (source, slot), without a posted receive.
  bool keyed = false;
  QueueIndex queue = 0;
  /// The completion queue of a wait, the queue of an enable, or the group of a multicast or
  /// collect.
  std::uint16_t object = 0;
  std::uint16_t round = 0;  ///< number of the round, for display only; it orders nothing
  Rank peer = kNoRank;
  std::uint32_t slot = 0;   ///< number of the message among those between its two ranks
  std::uint32_t count = 0;  ///< completions of a wait, or entries of an enable
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
/// True if the task is posted before its data arrives.
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
