// Phase 1 of the validator: checks each schedule by itself, and that all schedules belong to one
// collective.
#include <fmt/format.h>

#include <algorithm>

#include "schedule/text.hpp"
#include "schedule/validate/validate_parts.hpp"

namespace tutti::schedule {

namespace {

/// True if the entries of a queue are carried out one after the other, so that its waits and
/// enables have an order.
bool sequential(const Queue& queue) {
  return queue.kind == QueueKind::management || queue.kind == QueueKind::host;
}

/// True if two purposes differ in nothing but the rank.
bool belong_together(const Purpose& a, const Purpose& b) {
  return a.collective == b.collective && a.algorithm == b.algorithm && a.ranks == b.ranks &&
         a.root == b.root && a.parameters == b.parameters;
}

class ProgramCheck {
 public:
  ProgramCheck(const AllRanks& all, std::uint32_t rank, Findings& findings)
      : all_(all), rank_(rank), schedule_(all.at(rank)), findings_(findings) {}

  void run() {
    for (TaskIndex t = 0; t < schedule_.tasks().size(); ++t) {
      check_peer(t);
      check_places(t);
      check_queue_membership(t);
    }
    check_counts();
  }

 private:
  template <typename... Args>
  void wrong(Fault fault, TaskIndex task, fmt::format_string<Args...> format, Args&&... args) {
    findings_.add(fault, all_.base(rank_) + task, fmt::format(format, std::forward<Args>(args)...));
  }

  void check_peer(TaskIndex t) {
    const Task& task = schedule_.tasks()[t];
    const auto outside = [&](Rank peer) { return index(peer) >= all_.ranks(); };
    const bool has_peer = sends_message(task.kind) || task.kind == TaskKind::recv ||
                          task.kind == TaskKind::write || task.kind == TaskKind::read;
    if (has_peer && (outside(task.peer) || index(task.peer) == rank_))
      wrong(Fault::message, t, "rank {} cannot be a peer of rank {}: name another rank below {}",
            index(task.peer), rank_, all_.ranks());
    for (const Key& key : schedule_.keys(t)) {
      if (outside(key.source) || index(key.source) == rank_)
        wrong(Fault::message, t, "rank {} cannot be a peer of rank {}: name another rank below {}",
              index(key.source), rank_, all_.ranks());
    }
  }

  /// The schedule of the rank in whose memory the slice of a task lies; null if the peer of the
  /// task does not exist.
  const Schedule* owner(const Task& task, bool remote) const {
    if (!remote) return &schedule_;
    return index(task.peer) < all_.ranks() ? &all_.at(index(task.peer)) : nullptr;
  }

  void check_place(TaskIndex t, const BufferSlice& slice, const Schedule* at, bool written) {
    if (slice.empty() || at == nullptr) return;
    const std::uint32_t blocks = at->blocks(slice.buffer);
    if (slice.last_block() > blocks)
      wrong(Fault::place, t,
            "{} is outside the {} buffer of rank {}, which has {} blocks: correct "
            "the block number, or reserve scratch",
            to_string(slice), to_string(slice.buffer), index(at->rank()), blocks);
    if (written && slice.buffer == Buffer::send)
      wrong(Fault::place, t,
            "writes {}, which is the caller's and read only: write to the receive "
            "or scratch buffer",
            to_string(slice));
  }

  void check_places(TaskIndex t) {
    const Task& task = schedule_.tasks()[t];
    const bool reads_remote = task.kind == TaskKind::read;
    const bool writes_remote = task.kind == TaskKind::write;
    const bool moves = reads_source(task.kind) || reads_remote;
    check_place(t, task.source, owner(task, reads_remote), false);
    check_place(t, task.target, owner(task, writes_remote), true);
    const bool has_both = moves && task.kind != TaskKind::send;
    if (!has_both) return;
    if (!same_extent(task.source, task.target))
      wrong(Fault::place, t,
            "{} and {} differ in extent: name the same number of blocks, and the same "
            "parts of a block, on both sides",
            to_string(task.source), to_string(task.target));
    const bool local = task.kind == TaskKind::copy || task.kind == TaskKind::reduce;
    if (local && overlap(task.source, task.target))
      wrong(Fault::race, t, "its source and target overlap: copy through scratch");
  }

  void check_queue_membership(TaskIndex t) {
    const Task& task = schedule_.tasks()[t];
    const Queue& queue = schedule_.queues()[task.queue];
    if (queue.kind == QueueKind::send && !(sends_message(task.kind) && task.peer == queue.peer))
      wrong(Fault::queue, t, "is in the send queue to rank {}: put only sends to that rank there",
            index(queue.peer));
    if (queue.kind == QueueKind::receive &&
        !(task.kind == TaskKind::recv && task.peer == queue.peer))
      wrong(Fault::queue, t,
            "is in the receive queue from rank {}: put only receives from that "
            "rank there",
            index(queue.peer));
    if (task.kind == TaskKind::enable && !schedule_.queues()[task.object].held)
      wrong(Fault::queue, t,
            "enables queue {}, which is not held: mark the queue held or drop "
            "this enable",
            task.object);
    const bool counts = task.kind == TaskKind::enable || task.kind == TaskKind::wait;
    if (counts && !sequential(queue))
      wrong(Fault::queue, t,
            "is a wait or enable in an unordered queue: put it into a management queue");
  }

  /// Checks that enables release exactly the entries of their queue and that waits need no more
  /// completions than tasks report. The waits on a completion queue, or the enables of a held
  /// queue, must all be in one queue.
  void check_counts() {
    std::size_t objects = schedule_.queues().size();
    for (const Task& task : schedule_.tasks())
      objects = std::max(objects, task.object + std::size_t{1});
    std::vector<std::uint64_t> enabled(objects);
    std::vector<std::uint64_t> awaited(objects);
    std::vector<QueueIndex> enabler(objects, kNoIndex);
    std::vector<QueueIndex> waiter(objects, kNoIndex);
    for (TaskIndex t = 0; t < schedule_.tasks().size(); ++t) {
      const Task& task = schedule_.tasks()[t];
      if (task.kind == TaskKind::enable) {
        count(t, enabled, enabler, schedule_.entries(task.object).size(), "entries of queue");
      } else if (task.kind == TaskKind::wait) {
        count(t, awaited, waiter, reporting_to(task.object), "completions on completion queue");
      }
    }
    for (std::size_t q = 0; q < schedule_.queues().size(); ++q) {
      const auto entries = schedule_.entries(static_cast<QueueIndex>(q));
      if (schedule_.queues()[q].held && enabled[q] < entries.size())
        wrong(Fault::deadlock, entries[enabled[q]],
              "is never released, because queue {} is enabled for {} of {} entries: enable all "
              "entries",
              q, enabled[q], entries.size());
    }
  }

  void count(TaskIndex t, std::vector<std::uint64_t>& totals, std::vector<QueueIndex>& owners,
             std::uint64_t available, std::string_view what) {
    const Task& task = schedule_.tasks()[t];
    if (task.count == 0) wrong(Fault::queue, t, "has count 0: drop the task or use 1 or more");
    if (owners[task.object] != kNoIndex && owners[task.object] != task.queue)
      wrong(Fault::queue, t,
            "counts {} {} from queue {}, but an earlier task counts them from queue {}: put both "
            "tasks into one queue",
            what, task.object, task.queue, owners[task.object]);
    owners[task.object] = task.queue;
    totals[task.object] += task.count;
    if (totals[task.object] > available)
      wrong(Fault::queue, t, "asks for {} {} {} in all, but there are {}: lower the count",
            totals[task.object], what, task.object, available);
  }

  std::uint64_t reporting_to(std::uint16_t completions) const {
    std::uint64_t reporting = 0;
    for (std::size_t q = 0; q < schedule_.queues().size(); ++q) {
      if (schedule_.queues()[q].completions == completions)
        reporting += schedule_.entries(static_cast<QueueIndex>(q)).size();
    }
    return reporting;
  }

  const AllRanks& all_;
  std::uint32_t rank_;
  const Schedule& schedule_;
  Findings& findings_;
};

}  // namespace

namespace {

/// Limit on the total number of blocks of all ranks. It bounds the memory of the validator, which
/// needs some bytes for each cell, and ensures that 32 bits suffice for cell numbers.
constexpr std::uint64_t kMaxBlocks = std::uint64_t{1} << 26;

void check_size(const AllRanks& all, Findings& findings) {
  std::uint64_t blocks = 0;
  for (std::uint32_t r = 0; r < all.ranks(); ++r) {
    for (Buffer buffer : {Buffer::send, Buffer::receive, Buffer::scratch})
      blocks += all.at(r).blocks(buffer);
  }
  if (blocks > kMaxBlocks)
    findings.add_at(Fault::program, 0,
                    fmt::format("all ranks together have {} blocks: validate fewer ranks, at most "
                                "{} blocks",
                                blocks, kMaxBlocks));
}

}  // namespace

void check_programs(const AllRanks& all, const ValidateOptions& options, Findings& findings) {
  const Purpose& first = all.at(0).purpose();
  for (std::uint32_t r = 0; r < all.ranks(); ++r) {
    const Purpose& purpose = all.at(r).purpose();
    if (purpose.ranks != all.ranks() || index(purpose.rank) != r ||
        !belong_together(first, purpose)) {
      findings.add_at(
          Fault::program, r,
          fmt::format(
              "its schedule is for rank {} of {} in {} {}, but must be for rank {} of {} in "
              "{} {}: build all schedules with the same collective, algorithm, root and "
              "parameters",
              index(purpose.rank), purpose.ranks, to_string(purpose.collective), purpose.algorithm,
              r, all.ranks(), to_string(first.collective), first.algorithm));
      return;
    }
    if (options.varying && !all.at(r).single_blocks())
      findings.add_at(Fault::place, r,
                      "moves several blocks at once, or uses scratch, but the blocks may differ in "
                      "size: move single blocks between the caller's buffers");
  }
  check_size(all, findings);
  if (options.in_place && !has_in_place(first.collective))
    findings.add_at(Fault::program, 0,
                    fmt::format("{} has no in-place form: validate it with two buffers",
                                to_string(first.collective)));
  for (std::uint32_t r = 0; r < all.ranks() && findings.none(); ++r)
    ProgramCheck(all, r, findings).run();
}

}  // namespace tutti::schedule
