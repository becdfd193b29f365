#include "trigger/build/from_schedule.hpp"

#include <algorithm>
#include <optional>
#include <vector>

#include "base/error.hpp"
#include "schedule/text.hpp"
#include "trigger/build/sequence_builder.hpp"

namespace tutti::trigger {
namespace {

using schedule::Extent;
using schedule::FilledTask;
using schedule::Side;
using schedule::Task;
using schedule::TaskIndex;
using schedule::TaskKind;

constexpr TaskIndex kNoPartner = 0xffff'ffffu;

bool has_descriptor(TaskKind kind) {
  return kind == TaskKind::send || kind == TaskKind::signal || kind == TaskKind::recv ||
         kind == TaskKind::wait_keys || kind == TaskKind::reduce || kind == TaskKind::copy;
}

class Lowering {
 public:
  Lowering(const schedule::Schedule& schedule, const ScheduleCall& call)
      : schedule_(schedule),
        call_(call),
        self_(call.nodes[index(schedule.rank())]),
        filled_(schedule.tasks().size()),
        received_by_(schedule.tasks().size(), kNoPartner),
        fused_(schedule.tasks().size()),
        builder_(call.job, call.port, self_) {}

  Result<DescriptorList> lower(const schedule::Shape& shape) {
    if (Status status = check(); !status) return status;
    if (Status status = fill(schedule_, shape, filled_); !status) return status;
    for (TaskIndex t = 0; t < filled_.size(); ++t) fuse(t);
    for (const TaskIndex t : order()) emit(t);
    if (own_packets_ > kSequenceIds) return too_many(schedule_.rank());
    builder_.end();
    return builder_.finish();
  }

 private:
  Status check() const {
    for (TaskIndex t = 0; t < filled_.size(); ++t) {
      const Task& task = schedule_.tasks()[t];
      if (!has_descriptor(task.kind) ||
          schedule_.queues()[task.queue].kind != schedule::QueueKind::free) {
        return failure(
            Code::unsupported,
            "offload: {} cannot be lowered to a descriptor: use only the tasks 'send', 'signal', "
            "'recv', 'wait_keys', 'reduce' and 'copy', on queues of the kind 'free'",
            describe(schedule_, t));
      }
      if (task.slot >= kSequenceIds && task.kind != TaskKind::wait_keys) return too_many(task.peer);
      for (const schedule::Key& key : schedule_.keys(t)) {
        if (key.slot >= kSequenceIds) return too_many(key.source);
      }
    }
    return Status();
  }
  Status too_many(Rank peer) const {
    return failure(
        Code::unsupported,
        "offload: rank {} and rank {} exchange more than {} messages: use fewer segments",
        index(schedule_.rank()), index(peer), kSequenceIds);
  }

  /// True if no task other than the reduction `reduce` reads the data that `recv` receives.
  bool only_reads(TaskIndex recv, TaskIndex reduce) const {
    const schedule::BufferSlice& place = schedule_.tasks()[recv].target;
    for (const TaskIndex t : schedule_.dependents(recv)) {
      const Task& task = schedule_.tasks()[t];
      if (t == reduce) continue;
      if (reads_source(task.kind) && overlap(task.source, place)) return false;
      const bool folds = task.kind == TaskKind::reduce || task.kind == TaskKind::wait_keys;
      if (folds && overlap(task.target, place)) return false;
    }
    return true;
  }

  void fuse(TaskIndex reduce) {
    const Task& task = schedule_.tasks()[reduce];
    if (task.kind != TaskKind::reduce || task.source.buffer != schedule::Buffer::scratch) return;
    for (const TaskIndex t : schedule_.dependencies(reduce)) {
      const Task& recv = schedule_.tasks()[t];
      if (recv.kind != TaskKind::recv || !(recv.target == task.source)) continue;
      if (!only_reads(t, reduce)) continue;
      received_by_[reduce] = t;
      fused_[t] = true;
    }
  }

  bool waits(TaskIndex t) const {
    const TaskKind kind = schedule_.tasks()[t].kind;
    return (kind == TaskKind::recv && !fused_[t]) || kind == TaskKind::wait_keys ||
           kind == TaskKind::reduce;
  }

  std::vector<TaskIndex> order() const {
    std::vector<TaskIndex> ordered;
    std::vector<bool> placed(filled_.size());
    while (ordered.size() < filled_.size()) {
      std::optional<TaskIndex> best;
      for (TaskIndex t = 0; t < filled_.size(); ++t) {
        if (placed[t] || !ready(t, placed)) continue;
        if (!best || comes_before(t, *best)) best = t;
      }
      // `best` is always set: each task depends on earlier tasks only, so at least one is ready.
      if (!best) break;
      placed[*best] = true;
      ordered.push_back(*best);
    }
    return ordered;
  }
  bool ready(TaskIndex t, const std::vector<bool>& placed) const {
    const auto dependencies = schedule_.dependencies(t);
    return std::all_of(dependencies.begin(), dependencies.end(),
                       [&](TaskIndex dependency) { return placed[dependency]; });
  }
  bool comes_before(TaskIndex a, TaskIndex b) const {
    if (waits(a) != waits(b)) return !waits(a);
    return waits(a) && schedule_.tasks()[a].round < schedule_.tasks()[b].round;
  }

  Address address(const Extent& extent) const {
    if (extent.buffer == schedule::Buffer::send) return call_.send + extent.offset_bytes;
    if (extent.buffer == schedule::Buffer::receive) return call_.receive + extent.offset_bytes;
    if (extent.buffer == schedule::Buffer::scratch) return call_.scratch + extent.offset_bytes;
    return kNoAddress;
  }
  NodeId node(Rank rank) const { return call_.nodes[index(rank)]; }

  void emit(TaskIndex t) {
    const Task& task = schedule_.tasks()[t];
    const Extent& source = filled_[t].source;
    const Extent& target = filled_[t].target;
    switch (task.kind) {
      case TaskKind::send:
        builder_.send(node(task.peer), task.slot, address(source), bytes(source));
        return;
      case TaskKind::signal:
        builder_.signal(node(task.peer), task.slot);
        return;
      case TaskKind::recv:
        if (!fused_[t]) receive(node(task.peer), task.slot, target);
        return;
      case TaskKind::copy:
        copy(source, target);
        return;
      case TaskKind::reduce:
        emit_reduce(t);
        return;
      case TaskKind::wait_keys:
        emit_wait_keys(t);
        return;
      default:
        return;  // not reached: check() has refused all other kinds of task
    }
  }

  static std::uint32_t bytes(const Extent& extent) {
    return static_cast<std::uint32_t>(extent.size_bytes);
  }
  void receive(NodeId from, std::uint32_t slot, const Extent& target) {
    if (target.buffer == schedule::Buffer::none) {
      builder_.wait(from, slot);
    } else {
      builder_.receive(from, slot, address(target), bytes(target));
    }
  }
  void copy(const Extent& source, const Extent& target) {
    if (source.size_bytes == 0 || source == target) return;
    Descriptor& d = builder_.add();
    d.kind = PayloadKind::rdma;
    d.address = address(source);
    d.store_address = address(target);
    d.data_bytes = bytes(source);
  }

  Descriptor& reduce_into(const Extent& target, Side side) {
    return builder_.reduce(call_.operation, call_.type, address(target), address(target),
                           bytes(target), side == Side::before ? 1 : 0);
  }
  void emit_reduce(TaskIndex t) {
    const Task& task = schedule_.tasks()[t];
    if (received_by_[t] != kNoPartner) {
      const Task& recv = schedule_.tasks()[received_by_[t]];
      reduce_into(filled_[t].target, task.side);
      builder_.name(node(recv.peer), recv.slot);
      return;
    }
    const std::uint32_t slot = own_packets_++;
    builder_.send(self_, slot, address(filled_[t].source), bytes(filled_[t].source));
    reduce_into(filled_[t].target, task.side);
    builder_.name(self_, slot);
  }

  // If the operands precede the target in the fold (Side::before), each operand gets a descriptor
  // of its own, and the operand nearest to the target comes first. Otherwise up to kMaxChildren
  // operands share a descriptor.
  void emit_wait_keys(TaskIndex t) {
    const Task& task = schedule_.tasks()[t];
    const Extent& target = filled_[t].target;
    std::uint32_t in_descriptor = kMaxChildren;
    for (const schedule::Key& key : schedule_.keys(t)) {
      if (task.side == Side::none) {
        receive(node(key.source), key.slot, target);
        continue;
      }
      if (task.side == Side::before || in_descriptor == kMaxChildren) {
        reduce_into(target, task.side);
        in_descriptor = 0;
      }
      builder_.name(node(key.source), key.slot);
      ++in_descriptor;
    }
  }

  const schedule::Schedule& schedule_;
  const ScheduleCall& call_;
  NodeId self_;
  std::vector<FilledTask> filled_;
  std::vector<TaskIndex> received_by_;  ///< for each reduction, the receive that it replaces
  /// For each task, true if it is a receive that a reduction replaces.
  std::vector<bool> fused_;
  std::uint32_t own_packets_ = 0;
  SequenceBuilder builder_;
};

}  // namespace

Result<DescriptorList> lower_schedule(const schedule::Schedule& schedule,
                                      const schedule::Shape& shape, const ScheduleCall& call) {
  if (call.nodes.size() != schedule.ranks()) {
    return failure(
        Code::invalid_argument,
        "offload: {} nodes are given for a schedule of {} ranks: give one node for each rank",
        call.nodes.size(), schedule.ranks());
  }
  return Lowering(schedule, call).lower(shape);
}

}  // namespace tutti::trigger
