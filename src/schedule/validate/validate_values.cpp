// Phase 5 of the validator: runs the schedules once on symbolic values.
#include <fmt/format.h>

#include <algorithm>

#include "schedule/data_check.hpp"
#include "schedule/text.hpp"
#include "schedule/validate/validate.hpp"

namespace tutti::schedule {

namespace {

/// The content that one block of a rank's receive buffer must have after the collective.
struct Promise {
  bool folded = false;  ///< true: the block must be the fold of all ranks' contributions to `block`
  std::uint32_t source = 0;
  std::uint32_t block = 0;
};

Promise promise_of(const Purpose& purpose, std::uint32_t receive_block) {
  const std::uint32_t me = index(purpose.rank);
  switch (purpose.collective) {
    case Collective::broadcast:
      return {false, index(purpose.root), 0};
    case Collective::scatter:
    case Collective::scatterv:
      return {false, index(purpose.root), me};
    case Collective::alltoall:
    case Collective::alltoallv:
      return {false, receive_block, me};
    case Collective::reduce_scatter:
    case Collective::reduce_scatterv:
      return {true, 0, me};
    case Collective::reduce:
    case Collective::allreduce:
      return {true, 0, 0};
    case Collective::barrier:
    case Collective::allgather:
    case Collective::allgatherv:
    case Collective::gather:
    case Collective::gatherv:
      break;
  }
  return {false, receive_block, 0};
}

std::uint32_t contributed_blocks(const AllRanks& all) {
  std::uint32_t blocks = 1;
  for (std::uint32_t r = 0; r < all.ranks(); ++r)
    blocks = std::max(blocks, all.at(r).blocks(Buffer::send));
  return blocks;
}

class ValueRun {
 public:
  ValueRun(const AllRanks& all, const CellSpace& cells, const EventGraph& graph,
           const Matching& matching, Findings& findings)
      : all_(all),
        cells_(cells),
        graph_(graph),
        matching_(matching),
        findings_(findings),
        values_(all.ranks(), contributed_blocks(all)),
        held_(cells.size(), kUnwritten),
        writer_(cells.size(), kNoTask),
        captured_(all.task_count()) {}

  void run(bool varying) {
    varying_ = varying;
    give_contributions();
    for (std::uint32_t r = 0; r < all_.ranks() && varying; ++r) note_promises(r);
    // In a real run, a receive without dependencies is issued when its rank's call begins, but this
    // run may issue it later. This makes no difference, because a receive reads no memory.
    for (Event event : graph_.order()) {
      if (findings_.full()) return;
      if (event >= 2 * all_.task_count()) continue;
      const GlobalTask task = event / 2;
      event % 2 == 0 ? issue(task) : complete(task);
    }
  }

  void compare_with_promise(Validation& validation) {
    validation.rank_ordered = reduces(all_.at(0).purpose().collective);
    validation.same_association = validation.rank_ordered;
    // For each cell of each block, the fold at the first rank that has this cell. The folds at the
    // other ranks are compared with it.
    std::vector<ValueId> association;
    for (std::uint32_t r = 0; r < all_.ranks(); ++r) {
      const Schedule& schedule = all_.at(r);
      std::size_t place = 0;
      for (std::uint32_t b = 0; b < schedule.blocks(Buffer::receive); ++b) {
        const Promise promise = promise_of(schedule.purpose(), b);
        bool reported = false;
        cells_.for_each(r, block_of(Buffer::receive, b), [&](std::uint32_t cell) {
          if (!keeps(promise, held_[cell])) {
            if (!reported) broken(r, b, promise, cell);
            reported = true;
            return;
          }
          if (!promise.folded) return;
          validation.rank_ordered &= values_.rank_ordered(held_[cell]);
          if (place == association.size()) association.push_back(held_[cell]);
          validation.same_association &= association[place++] == held_[cell] ||
                                         schedule.purpose().collective != Collective::allreduce;
        });
      }
    }
    validation.rank_ordered &= findings_.none();
    validation.same_association &= findings_.none();
  }

 private:
  void give_contributions() {
    for (std::uint32_t r = 0; r < all_.ranks(); ++r) {
      const Purpose& purpose = all_.at(r).purpose();
      for (std::uint32_t b = 0; b < all_.at(r).blocks(Buffer::send); ++b)
        give(r, block_of(Buffer::send, b), values_.original(r, b));
      if (purpose.collective == Collective::broadcast && purpose.rank == purpose.root)
        give(r, block_of(Buffer::receive, 0), values_.original(r, 0));
    }
  }

  void give(std::uint32_t rank, const BufferSlice& slice, ValueId value) {
    cells_.for_each(rank, slice, [&](std::uint32_t cell) { held_[cell] = value; });
  }

  void note_promises(std::uint32_t rank) {
    promised_.resize(held_.size(), kUnwritten);
    for (std::uint32_t b = 0; b < all_.at(rank).blocks(Buffer::receive); ++b) {
      const Promise promise = promise_of(all_.at(rank).purpose(), b);
      if (promise.folded) continue;
      cells_.for_each(rank, block_of(Buffer::receive, b), [&](std::uint32_t cell) {
        promised_[cell] = values_.original(promise.source, promise.block);
      });
    }
  }

  void issue(GlobalTask t) {
    const Task& task = all_.task(t);
    if (task.kind == TaskKind::send || task.kind == TaskKind::multicast)
      captured_[t] = take(all_.rank_of_task(t), task.source, t);
  }

  void complete(GlobalTask t) {
    const Task& task = all_.task(t);
    const std::uint32_t me = all_.rank_of_task(t);
    switch (task.kind) {
      case TaskKind::recv:
        return put(me, task.target, captured_[message(t, 0).sender], t);
      case TaskKind::wait_keys:
        return fold_keys(t);
      case TaskKind::collect:
        return collect(t);
      case TaskKind::write:
        return put(index(task.peer), task.target, take(me, task.source, t), t);
      case TaskKind::read:
        return put(me, task.target, take(index(task.peer), task.source, t), t);
      case TaskKind::copy:
        return put(me, task.target, take(me, task.source, t), t);
      case TaskKind::reduce:
        return fold(t, take(me, task.source, t), task.side);
      case TaskKind::send:
      case TaskKind::multicast:
      case TaskKind::wait:
      case TaskKind::enable:
      case TaskKind::signal:
        return;
    }
  }

  const Delivery& message(GlobalTask receiver, std::uint32_t key) const {
    return matching_.messages[matching_.first_message[receiver] + key];
  }

  std::vector<ValueId> take(std::uint32_t rank, const BufferSlice& slice, GlobalTask t) {
    std::vector<ValueId> taken;
    bool reported = false;
    cells_.for_each(rank, slice, [&](std::uint32_t cell) {
      taken.push_back(held_[cell]);
      if (held_[cell] != kUnwritten || reported) return;
      reported = true;
      findings_.add(Fault::unwritten, t,
                    fmt::format("reads {} of rank {} before any task writes it: receive or "
                                "copy into it first",
                                cells_.name(rank, cell), rank));
    });
    return taken;
  }

  void put(std::uint32_t rank, const BufferSlice& slice, const std::vector<ValueId>& taken,
           GlobalTask t) {
    std::size_t at = 0;
    cells_.for_each(rank, slice, [&](std::uint32_t cell) { store(cell, taken[at++], t); });
  }

  void store(std::uint32_t cell, ValueId value, GlobalTask t) {
    held_[cell] = value;
    writer_[cell] = t;
    if (!varying_ || promised_[cell] == kUnwritten || promised_[cell] == value) return;
    findings_.add(
        Fault::result, t,
        fmt::format("puts {} in the place of {}, but the two may differ in size: write it to "
                    "its own block",
                    values_.name(value), values_.name(promised_[cell])));
  }

  void collect(GlobalTask t) {
    const auto first = std::lower_bound(
        matching_.multicasts.begin(), matching_.multicasts.end(), t,
        [](const Delivery& d, GlobalTask receiver) { return d.receiver < receiver; });
    const std::uint32_t me = all_.rank_of_task(t);
    const BufferSlice& mine = all_.task(t).target;
    for (auto d = first; d != matching_.multicasts.end() && d->receiver == t; ++d) {
      std::size_t at = 0;
      const std::vector<ValueId>& sent = captured_[d->sender];
      cells_.for_each(me, all_.task(d->sender).target, [&](std::uint32_t cell) {
        if (is_in(me, mine, cell)) store(cell, sent[at], t);
        ++at;
      });
    }
  }

  bool is_in(std::uint32_t rank, const BufferSlice& slice, std::uint32_t wanted) const {
    bool found = false;
    cells_.for_each(rank, slice, [&](std::uint32_t cell) { found |= cell == wanted; });
    return found;
  }

  void fold_keys(GlobalTask t) {
    const Task& task = all_.task(t);
    for (std::uint32_t k = 0; k < task.key_count; ++k) {
      const std::vector<ValueId>& packet = captured_[message(t, k).sender];
      if (task.side == Side::none) {
        put(all_.rank_of_task(t), task.target, packet, t);
      } else {
        fold(t, packet, task.side);
      }
    }
  }

  void fold(GlobalTask t, const std::vector<ValueId>& with, Side side) {
    std::size_t at = 0;
    bool reported = false;
    cells_.for_each(all_.rank_of_task(t), all_.task(t).target, [&](std::uint32_t cell) {
      const ValueId more = with[at++];
      const Result<ValueId> value = side == Side::before ? values_.combine(more, held_[cell])
                                                         : values_.combine(held_[cell], more);
      if (value) {
        store(cell, *value, t);
      } else if (!reported) {
        reported = true;
        findings_.add(Fault::combination, t,
                      value.status().message() +
                          ": fold each rank's contribution to a block once, into that block");
      }
    });
  }

  bool keeps(const Promise& promise, ValueId value) const {
    if (promise.folded) return values_.complete(value, promise.block);
    return value == values_.original(promise.source, promise.block);
  }

  void broken(std::uint32_t rank, std::uint32_t block, const Promise& promise, std::uint32_t cell) {
    const std::string wanted = promise.folded
                                   ? fmt::format("the fold of all ranks' block {}", promise.block)
                                   : values_.name(values_.original(promise.source, promise.block));
    if (writer_[cell] == kNoTask) {
      findings_.add_at(
          Fault::result, rank,
          fmt::format("receive[{}] is not completely written: put {} there", block, wanted));
      return;
    }
    findings_.add(Fault::result, writer_[cell],
                  fmt::format("leaves {} in receive[{}] of rank {}, where {} belongs: correct its "
                              "source, its peer or its place",
                              values_.name(held_[cell]), block, rank, wanted));
  }

  const AllRanks& all_;
  const CellSpace& cells_;
  const EventGraph& graph_;
  const Matching& matching_;
  Findings& findings_;
  Values values_;
  std::vector<ValueId> held_;       ///< for each cell, its present value
  std::vector<GlobalTask> writer_;  ///< for each cell, the task that wrote it last
  /// For each cell, the value that it must have at the end; used only if block sizes vary.
  std::vector<ValueId> promised_;
  std::vector<std::vector<ValueId>> captured_;  ///< for each task, the values that it sent
  bool varying_ = false;
};

/// Checks a barrier: no rank's call may end before the call of every rank has begun.
void check_barrier(const AllRanks& all, const EventGraph& graph, Findings& findings) {
  std::vector<std::pair<Event, Event>> pairs;
  for (std::uint32_t from = 0; from < all.ranks(); ++from) {
    for (std::uint32_t to = 0; to < all.ranks(); ++to) {
      if (from != to) pairs.emplace_back(graph.began(from), graph.ended(to));
    }
  }
  const std::vector<bool> before = graph.always_before(pairs);
  for (std::size_t p = 0; p < pairs.size() && !findings.full(); ++p) {
    if (before[p]) continue;
    const std::uint32_t from = pairs[p].first - graph.began(0);
    const std::uint32_t to = pairs[p].second - graph.ended(0);
    findings.add_at(Fault::result, to,
                    fmt::format("may leave the barrier before rank {} has entered it: wait for a "
                                "signal that depends on that rank's call",
                                from));
  }
}

}  // namespace

void check_values(const AllRanks& all, const CellSpace& cells, const EventGraph& graph,
                  const Matching& matching, const ValidateOptions& options, Findings& findings,
                  Validation& validation) {
  ValueRun run(all, cells, graph, matching, findings);
  run.run(options.varying);
  if (findings.none()) run.compare_with_promise(validation);
  if (findings.none() && all.at(0).purpose().collective == Collective::barrier)
    check_barrier(all, graph, findings);
}

}  // namespace tutti::schedule
