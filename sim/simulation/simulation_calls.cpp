// The calls of the ranks in a simulation, as their applications make them.
#include <algorithm>
#include <functional>
#include <memory>
#include <utility>

#include "sim/simulation/simulation.hpp"

namespace tutti::simulation {

namespace {

using Ended = std::function<void(const Status&)>;

/// Returns one callback for all `calls` calls that together count as one collective. At the end of
/// the last call, the callback passes the first error of the calls, or ok, to `ended`.
Ended after(std::size_t calls, Ended ended) {
  struct Open {
    std::size_t calls;
    Ended ended;
    Status status;  ///< the first error
  };
  const auto open = std::make_shared<Open>(Open{calls, std::move(ended), {}});
  return [open](const Status& status) {
    if (open->status.ok()) open->status = status;
    if (--open->calls == 0) open->ended(open->status);
  };
}

void submit_operation(std::unique_ptr<engine::Operation> operation,
                      engine::CommunicatorContext& context, Ended ended) {
  operation->completion()->callback = std::move(ended);
  context.operations().submit(std::move(operation));
}

/// Submits the receive and the send of one collective of tagged messages. `tag` is the number of
/// the collective, so that messages match only within one collective.
void submit_messages(CollectiveRun& run, std::uint64_t tag, engine::CommunicatorContext& context,
                     const Ended& end) {
  auto calls = run.messages(tag);
  const Ended ended = after(calls.size(), end);
  for (auto& call : calls) {
    call->completion->callback = ended;
    context.tagged().submit(std::move(call));
  }
}

/// Submits a rank's part of a reduction by the aggregator. A reduction without elements ends at
/// once.
void submit_aggregated(CollectiveRun& run, const CommunicatorSpec& spec,
                       engine::CommunicatorContext& context, const Ended& end) {
  auto operations = run.by_aggregator(spec);
  if (operations.empty()) return end({});
  const Ended ended = after(operations.size(), end);
  for (auto& operation : operations) submit_operation(std::move(operation), context, ended);
}

}  // namespace

void Simulation::submit(std::uint32_t at) {
  Member& member = members_[at];
  if (hosts_[member.host].dead) return;
  const CommunicatorSpec& spec = config_.communicators[member.communicator];
  while (member.submitted < member.ends.size() &&
         member.submitted - member.over < std::max(1u, spec.submitted_ahead)) {
    const CollectiveKind next = spec.collectives[member.submitted].kind;
    // A rank may close, or leave its aggregator, only after all its calls have ended.
    const bool ends = next == CollectiveKind::leave || next == CollectiveKind::close;
    if (ends && member.over < member.submitted) break;
    submit_one(member, member.submitted++);
  }
  schedule_wake(member.host, now());
}

void Simulation::submit_one(Member& member, std::uint32_t number) {
  const CommunicatorSpec& spec = config_.communicators[member.communicator];
  const CollectiveSpec& what = spec.collectives[number];
  const std::uint32_t ranks = calling_ranks(spec);
  Shared& shared = shared_[member.communicator];
  member.ends[number].submitted = true;
  member.ends[number].submitted_at = now();
  engine::CommunicatorContext& context = *member.context;
  if (member.window) {
    return context.operations().submit(std::make_unique<engine::ReduceOperation>(member.window));
  }
  if (what.kind == CollectiveKind::close) {
    member.departure = std::make_unique<engine::Departure>(context, kNever);
    return;
  }
  const auto at = static_cast<std::uint32_t>(&member - members_.data());
  const Ended ended = [this, at, number](const Status& status) { on_end(at, number, status); };
  if (!spec.nic.carry_bytes) {
    const std::span<std::byte> all(shared.absent[number].get(), result_bytes(what, ranks));
    const bool gathers =
        what.kind == CollectiveKind::allgather || what.kind == CollectiveKind::ring_allgather;
    const auto own =
        gathers ? all.subspan(index(member.rank) * what.bytes, what.bytes) : std::span<std::byte>{};
    return submit_operation(make_operation(what, ranks, member.rank, own, all), context, ended);
  }
  CollectiveRun& run = member.runs.emplace_back(what, ranks, member.rank, shared.expected[number]);
  if (what.kind == CollectiveKind::messages) return submit_messages(run, number, context, ended);
  if (spec.aggregator && reduces(what.kind)) return submit_aggregated(run, spec, context, ended);
  if (goes_by_hosts(spec, what)) return member.by_hosts->start(run.call(), ended);
  submit_operation(run.operation(), context, ended);
}

/// Carries out the next step by which a rank closes its communicator; returns true if the rank must
/// be polled again at once.
bool Simulation::depart(std::uint32_t at) {
  Member& member = members_[at];
  const bool moved = member.departure->step(now());
  if (!member.gone()) return moved;
  member.ends.back().early = !member.context->closing().may_leave();
  on_end(at, static_cast<std::uint32_t>(member.ends.size()) - 1, member.departure->status());
  return moved;
}

}  // namespace tutti::simulation
