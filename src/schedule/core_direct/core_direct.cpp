#include "schedule/core_direct/core_direct.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <vector>

#include "base/error.hpp"
#include "schedule/builder.hpp"
#include "schedule/text.hpp"

namespace tutti::schedule {

namespace {

/// The queue and the entries that replace one task of the original schedule in the lowered
/// schedule.
struct Place {
  QueueIndex queue = kNoIndex;
  /// Number of entries from the start of the queue to the task's last entry, inclusive.
  std::uint32_t last_entry = 0;
};

class Lowering {
 public:
  Lowering(const Schedule& from, const CoreDirectOptions& options)
      : from_(from), options_(options), out_(from.purpose()), places_(from.tasks().size()) {
    out_.explicit_only();
    if (from.blocks(Buffer::scratch) > 0) out_.scratch(from.blocks(Buffer::scratch));
  }

  Result<Schedule> run() {
    if (Status checked = check(); !checked) return checked;
    make_queues();
    for (TaskIndex t = 0; t < from_.tasks().size(); ++t) post(t);
    out_.on(management_);
    release_first_receives();
    for (TaskIndex t : in_order_of_release()) manage(t);
    wait_for_the_rest();
    return out_.finish();
  }

 private:
  /// The queues of one direction of a connection: for data and for CTS messages.
  struct Ends {
    QueueIndex data = kNoIndex;
    QueueIndex cts = kNoIndex;
    std::uint32_t next_slot = 0;
    std::uint32_t next_cts_slot = kCtsSlots;
  };

  Status check() const;
  void make_queues();
  QueueIndex add_queue(QueueKind kind, Channel channel, bool held, Rank peer);
  bool is_early(TaskIndex t) const;

  void post(TaskIndex t);
  void post_send(TaskIndex t);
  void post_receive(TaskIndex t);
  void post_cts(Rank peer, Ends& ends, TaskKind kind, QueueIndex queue);
  std::uint32_t add(Task task, QueueIndex queue);
  std::vector<BufferSlice> pieces_of(const BufferSlice& slice) const;
  bool needs_cts(const BufferSlice& slice) const {
    return options_.transfer == Transfer::rendezvous && !slice.empty();
  }

  std::vector<TaskIndex> in_order_of_release() const;
  void release_first_receives();
  void manage(TaskIndex t);
  void await_dependencies(TaskIndex t);
  void await(QueueIndex queue, std::uint32_t entries, std::uint32_t round);
  void release(QueueIndex queue, std::uint32_t entries);
  void wait_for_the_rest();

  const Schedule& from_;
  CoreDirectOptions options_;
  Builder out_;
  std::vector<Place> places_;
  std::vector<Queue> queues_;           ///< queues by index; index 0 is the builder's free queue
  std::vector<std::uint32_t> entries_;  ///< for each queue, the number of entries added so far
  std::vector<std::uint32_t> rounds_;   ///< for each queue, the round of the entry added last
  /// For each queue, the number of entries for whose completion the lowered schedule already waits.
  std::vector<std::uint32_t> awaited_;
  /// For each queue, the number of entries that the lowered schedule already releases by enables.
  std::vector<std::uint32_t> released_;
  std::vector<bool> early_;  ///< for each task, true if the host can run it before all messages
  std::map<Rank, Ends> to_;
  std::map<Rank, Ends> from_peer_;
  /// For each send task, the number of CTS messages that must have arrived from the peer before the
  /// send: the task's own CTS and all earlier ones.
  std::map<TaskIndex, std::uint32_t> cts_awaited_;
  QueueIndex management_ = 0;
  QueueIndex prologue_ = kNoIndex;
  QueueIndex host_ = kNoIndex;
};

Status Lowering::check() const {
  std::map<Rank, std::uint32_t> next_send;
  std::map<Rank, std::uint32_t> next_receive;
  for (TaskIndex t = 0; t < from_.tasks().size(); ++t) {
    const Task& task = from_.tasks()[t];
    const bool sends = sends_message(task.kind) && !task.keyed;
    const bool known = sends || task.kind == TaskKind::recv || task.kind == TaskKind::copy ||
                       task.kind == TaskKind::reduce;
    if (!known || from_.queues()[task.queue].kind != QueueKind::free)
      return failure(Code::unsupported,
                     "{} cannot be lowered to a management queue: use only the tasks 'send', "
                     "'recv', 'signal', 'copy' and 'reduce', on queues of the kind 'free'",
                     describe(from_, t));
    if (task.kind == TaskKind::copy || task.kind == TaskKind::reduce) continue;
    std::uint32_t& next = (sends ? next_send : next_receive)[task.peer];
    if (task.slot != next++)
      return failure(
          Code::unsupported,
          "{} must have match slot {}, the next one of its connection: number the messages of a "
          "connection from 0, without gaps and in the order of their tasks",
          describe(from_, t), next - 1);
  }
  return {};
}

/// True if the task is a copy or reduction that depends on no message, directly or indirectly, so
/// that the host can run it before all messages.
bool Lowering::is_early(TaskIndex t) const {
  const TaskKind kind = from_.tasks()[t].kind;
  if (kind != TaskKind::copy && kind != TaskKind::reduce) return false;
  const auto before = from_.dependencies(t);
  return std::all_of(before.begin(), before.end(), [&](TaskIndex d) { return early_[d]; });
}

QueueIndex Lowering::add_queue(QueueKind kind, Channel channel, bool held, Rank peer) {
  Queue queue{kind, channel, held, kNoIndex, peer};
  if (kind != QueueKind::management)
    queue.completions = static_cast<std::uint16_t>(queues_.size() - 1);
  queues_.push_back(queue);
  return out_.queue(queue);
}

void Lowering::make_queues() {
  queues_.push_back(Queue());  // the builder's free queue, which stays empty
  early_.resize(from_.tasks().size());
  std::map<Rank, bool> receives_held;
  for (TaskIndex t = 0; t < from_.tasks().size(); ++t) {
    const Task& task = from_.tasks()[t];
    early_[t] = is_early(t);
    if (sends_message(task.kind)) to_[task.peer];
    if (task.kind == TaskKind::recv) {
      from_peer_[task.peer];
      receives_held[task.peer] |= task.dependency_count > 0;
    }
  }
  const bool rendezvous = options_.transfer == Transfer::rendezvous;
  for (auto& [peer, ends] : to_) {
    ends.data = add_queue(QueueKind::send, Channel::data, true, peer);
    if (rendezvous) ends.cts = add_queue(QueueKind::receive, Channel::cts, false, peer);
  }
  for (auto& [peer, ends] : from_peer_) {
    const bool held = receives_held[peer];
    ends.data = add_queue(QueueKind::receive, Channel::data, held, peer);
    if (rendezvous) ends.cts = add_queue(QueueKind::send, Channel::cts, held, peer);
  }
  prologue_ = add_queue(QueueKind::host, Channel::data, false, kNoRank);
  host_ = add_queue(QueueKind::host, Channel::data, true, kNoRank);
  management_ = add_queue(QueueKind::management, Channel::data, false, kNoRank);
  entries_.resize(queues_.size());
  rounds_.resize(queues_.size());
  awaited_.resize(queues_.size());
  released_.resize(queues_.size());
}

std::uint32_t Lowering::add(Task task, QueueIndex queue) {
  task.first_dependency = 0;
  task.dependency_count = 0;
  rounds_[queue] = task.round;
  out_.round(task.round).on(queue).add(task);
  return ++entries_[queue];
}

std::vector<BufferSlice> Lowering::pieces_of(const BufferSlice& slice) const {
  const bool split = options_.transfer == Transfer::eager && options_.buffer_per_block;
  if (!split || slice.block_count <= 1) return {slice};
  std::vector<BufferSlice> pieces;
  for (std::uint32_t b = slice.first_block; b < slice.last_block(); ++b)
    pieces.push_back(block_of(slice.buffer, b));
  return pieces;
}

void Lowering::post_cts(Rank peer, Ends& ends, TaskKind kind, QueueIndex queue) {
  Task cts;
  cts.kind = kind;
  cts.peer = peer;
  cts.slot = ends.next_cts_slot++;
  cts.round = static_cast<std::uint16_t>(rounds_[ends.data]);
  add(cts, queue);
}

void Lowering::post_send(TaskIndex t) {
  Task task = from_.tasks()[t];
  Ends& ends = to_[task.peer];
  rounds_[ends.data] = task.round;
  if (needs_cts(task.source)) {
    post_cts(task.peer, ends, TaskKind::recv, ends.cts);
    cts_awaited_[t] = entries_[ends.cts];
  }
  for (const BufferSlice& piece : pieces_of(task.source)) {
    task.source = piece;
    task.slot = ends.next_slot++;
    places_[t] = {ends.data, add(task, ends.data)};
  }
}

void Lowering::post_receive(TaskIndex t) {
  Task task = from_.tasks()[t];
  Ends& ends = from_peer_[task.peer];
  rounds_[ends.data] = task.round;
  if (needs_cts(task.target)) post_cts(task.peer, ends, TaskKind::signal, ends.cts);
  for (const BufferSlice& piece : pieces_of(task.target)) {
    task.target = piece;
    task.slot = ends.next_slot++;
    places_[t] = {ends.data, add(task, ends.data)};
  }
}

void Lowering::post(TaskIndex t) {
  const Task& task = from_.tasks()[t];
  if (sends_message(task.kind)) return post_send(t);
  if (task.kind == TaskKind::recv) return post_receive(t);
  const QueueIndex queue = early_[t] ? prologue_ : host_;
  places_[t] = {queue, add(task, queue)};
}

/// Sorts tasks in the order of their release: by round, and within a round receives before sends.
/// The release of a receive also sends its CTS, and two ranks would deadlock if each awaited the
/// other's CTS before it sent its own.
std::vector<TaskIndex> Lowering::in_order_of_release() const {
  std::vector<TaskIndex> order(from_.tasks().size());
  std::iota(order.begin(), order.end(), 0u);
  const auto turn = [&](TaskIndex t) {
    const Task& task = from_.tasks()[t];
    return std::pair(task.round, task.kind == TaskKind::recv ? 0 : 1);
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](TaskIndex a, TaskIndex b) { return turn(a) < turn(b); });
  return order;
}

/// Releases, in each held queue, the receives before the first one that has dependencies.
void Lowering::release_first_receives() {
  std::map<QueueIndex, bool> stopped;
  for (TaskIndex t = 0; t < from_.tasks().size(); ++t) {
    const Task& task = from_.tasks()[t];
    if (task.kind != TaskKind::recv || !queues_[places_[t].queue].held) continue;
    bool& stop = stopped[places_[t].queue];
    stop = stop || task.dependency_count > 0;
    if (!stop) manage(t);
  }
}

void Lowering::await(QueueIndex queue, std::uint32_t entries, std::uint32_t round) {
  if (awaited_[queue] >= entries) return;
  out_.round(round).wait(queues_[queue].completions, entries - awaited_[queue]);
  awaited_[queue] = entries;
}

void Lowering::release(QueueIndex queue, std::uint32_t entries) {
  if (!queues_[queue].held || released_[queue] >= entries) return;
  out_.enable(queue, entries - released_[queue]);
  released_[queue] = entries;
}

void Lowering::await_dependencies(TaskIndex t) {
  for (TaskIndex before : from_.dependencies(t)) manage(before);
  for (TaskIndex before : from_.dependencies(t))
    await(places_[before].queue, places_[before].last_entry, from_.tasks()[before].round);
}

void Lowering::manage(TaskIndex t) {
  const Task& task = from_.tasks()[t];
  const Place& place = places_[t];
  if (!queues_[place.queue].held || released_[place.queue] >= place.last_entry) return;
  await_dependencies(t);
  if (const auto cts = cts_awaited_.find(t); cts != cts_awaited_.end())
    await(to_[task.peer].cts, cts->second, task.round);
  out_.round(task.round);
  release(place.queue, place.last_entry);
  if (task.kind == TaskKind::recv && needs_cts(task.target)) {
    const QueueIndex cts = from_peer_[task.peer].cts;
    release(cts, released_[cts] + 1);
  }
}

void Lowering::wait_for_the_rest() {
  const auto finish = [&](QueueIndex queue) { await(queue, entries_[queue], rounds_[queue]); };
  for (const auto& [peer, ends] : to_) finish(ends.data);
  for (const auto& [peer, ends] : from_peer_) {
    if (ends.cts != kNoIndex) finish(ends.cts);
  }
  finish(prologue_);
  for (const auto& [peer, ends] : from_peer_) finish(ends.data);
  finish(host_);
}

}  // namespace

Result<Schedule> lower_to_core_direct(const Schedule& schedule, const CoreDirectOptions& options) {
  return Lowering(schedule, options).run();
}

}  // namespace tutti::schedule
