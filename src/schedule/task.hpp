// One step of a rank's program, and the queues that steps stand in.
//
// How a program runs. Every rank starts by posting what it can receive: tasks `recv` and `collect`
// that wait for nothing are posted before anything is sent (K3). Then a task is issued as soon as
//   - all tasks that it names as dependencies are complete,
//   - its queue lets it: see QueueKind,
//   - it is released, where its queue is held (C1).
// Nothing else orders tasks. In particular the order of the list says nothing on a free queue.
//
// Messages are matched by (source, destination, slot), and each such triple is used for one message
// only. So matching never depends on who is faster, and a wire tag of (collective, slot) is enough.
// Builders count slots up per peer, which makes list order the matching order. Multicast needs no
// matching: a chunk says its place in the receive buffer, and every group member collects it.
//
// Eager (C4) and rendezvous (C5) are no tasks but a choice per transfer and call, made from its
// bytes when the template is filled: both ends know the size and so choose alike. The reason: one
// template then serves all sizes, and the validator proves a list under the stricter rule of either
// protocol (a send's completion proves nothing, yet may be withheld until the receive is posted). A
// network interface with wait and enable gets the protocol spelt out, CTS by CTS: see
// core_direct.hpp.
#pragma once

#include <cstdint>

#include "schedule/segment.hpp"
#include "tutti/units.hpp"

namespace tutti::schedule {

enum class TaskKind : std::uint8_t {
  send,       ///< sends `source` to `peer`; complete once `source` may be overwritten
  recv,       ///< receives into `target` from `peer`; complete once it is there
  write,      ///< writes `source` to `target` at `peer`; complete once it is there
  read,       ///< reads `source` at `peer` into `target`
  multicast,  ///< sends `source` to all other members of `group`, whose place for it is `target`
  collect,    ///< receives all chunks that others multicast into `target`, in any order (K2)
  wait,       ///< complete once `count` further completions are on the completion queue `object`
  wait_keys,  ///< folds the keyed packets that it names into `target`, in the order named (T2)
  enable,     ///< releases the next `count` held entries of the queue `object` (send_enable,
              ///< recv_enable)
  reduce,     ///< combines `source` with `target` into `target` by the call's operator
  copy,       ///< copies `source` to `target`
  signal,     ///< sends no bytes to `peer`: a CTS, an activation, a round of a barrier
};
inline constexpr std::uint32_t kTaskKinds = 12;

const char* to_string(TaskKind kind);

/// On which side of the operator the new data stands. With `after` everywhere in rank order the
/// result is the fold by rank, also for an operator that does not commute.
enum class Side : std::uint8_t {
  after,   ///< target = target op source
  before,  ///< target = source op target
  none,    ///< target = source: nothing is combined (wait_keys only)
};

const char* to_string(Side side);

/// What a queue does with its entries.
enum class QueueKind : std::uint8_t {
  free,        ///< no order: dependencies alone decide
  send,        ///< send queue of a connection to `peer`: issued and completed in order
  receive,     ///< receive queue of a connection from `peer`: issued and completed in order
  management,  ///< each entry is complete before the next is issued; run by the device (C1)
  host,        ///< likewise, but run by the processor: copies and reductions
};

const char* to_string(QueueKind kind);

/// Indices within one schedule.
using TaskIndex = std::uint32_t;
using QueueIndex = std::uint16_t;
inline constexpr std::uint16_t kNoIndex = 0xffff;

/// What a queue's traffic is, so that messages of one connection that may overtake each other are
/// told apart (C5: "one for CTS, another for the data").
enum class Channel : std::uint8_t { data, cts };

const char* to_string(Channel channel);

struct Queue {
  QueueKind kind = QueueKind::free;
  Channel channel = Channel::data;
  bool held = false;                     ///< entries wait for an enable
  std::uint16_t completions = kNoIndex;  ///< completion queue that counts its entries, if any
  Rank peer = kNoRank;                   ///< of send and receive queues

  friend bool operator==(const Queue&, const Queue&) = default;
};

/// A keyed packet: whose, and which (T2). Sent by `send` with `keyed`, or by `signal`.
struct Key {
  Rank source = kNoRank;
  std::uint32_t slot = 0;

  friend bool operator==(const Key&, const Key&) = default;
};

/// One task. Fields that a kind does not use keep their defaults.
struct Task {
  TaskKind kind = TaskKind::copy;
  Side side = Side::after;  ///< reduce, wait_keys
  bool keyed = false;       ///< send: waits at the receiver under (source, slot), unposted
  QueueIndex queue = 0;
  std::uint16_t object = 0;  ///< wait: completion queue; enable: queue; multicast, collect: group
  std::uint16_t round = 0;   ///< for people and for tables; orders nothing
  Rank peer = kNoRank;
  std::uint32_t slot = 0;   ///< of a message
  std::uint32_t count = 0;  ///< wait, enable
  Segment source;
  Segment target;
  std::uint32_t first_dependency = 0;  ///< into Schedule::dependencies
  std::uint32_t dependency_count = 0;
  std::uint32_t first_key = 0;  ///< into Schedule::keys
  std::uint32_t key_count = 0;

  friend bool operator==(const Task&, const Task&) = default;
};

/// Whether the task sends a message that some task of `peer` receives.
constexpr bool sends_message(TaskKind kind) {
  return kind == TaskKind::send || kind == TaskKind::signal;
}
/// Whether the task is posted for data that comes by itself.
constexpr bool is_posted_receive(TaskKind kind) {
  return kind == TaskKind::recv || kind == TaskKind::collect;
}
/// Whether the task reads `source` in its own rank's memory.
constexpr bool reads_source(TaskKind kind) {
  return kind == TaskKind::send || kind == TaskKind::write || kind == TaskKind::multicast ||
         kind == TaskKind::reduce || kind == TaskKind::copy;
}
/// Whether the task writes `target` in its own rank's memory.
constexpr bool writes_target(TaskKind kind) {
  return kind == TaskKind::recv || kind == TaskKind::read || kind == TaskKind::collect ||
         kind == TaskKind::wait_keys || kind == TaskKind::reduce || kind == TaskKind::copy;
}

}  // namespace tutti::schedule
