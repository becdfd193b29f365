#include "sim/simulation/ranks/hierarchy_rank.hpp"

#include <utility>

#include "sim/simulation/ranks/collective_run.hpp"

namespace tutti::simulation {

using hierarchy::HierarchySide;
using hierarchy::HierarchyStage;
using hierarchy::HostLayout;

namespace {

/// Describes the call of a hierarchical stage as a collective of the simulation. A stage is a
/// Barrier, Allgather, Gather or Broadcast, because check() refuses calls with other stages.
CollectiveSpec spec_of(const CollectiveCall& call) {
  CollectiveSpec spec{.kind = CollectiveKind::barrier, .bytes = call.send.size()};
  if (call.collective == Collective::allgather) spec.kind = CollectiveKind::allgather;
  if (call.collective == Collective::gather) spec.kind = CollectiveKind::gather;
  if (call.collective == Collective::broadcast) {
    spec.kind = CollectiveKind::broadcast;
    spec.bytes = call.receive.size();
  }
  spec.root = call.root;
  return spec;
}

CommunicatorSpec side_with(const CommunicatorSpec& spec, std::vector<Rank> members) {
  CommunicatorSpec side = spec;
  side.hosts.clear();
  for (const Rank one : members) side.hosts.push_back(spec.hosts[index(one)]);
  side.members = std::move(members);
  side.ranks_per_host = 0;
  side.collectives.clear();
  side.tap = nullptr;
  side.nic.slot_exchange = false;
  return side;
}

}  // namespace

bool may_go_by_hosts(const CollectiveSpec& what) {
  // An Allgather in place cannot use the hierarchy: the Gather within a host reads a rank's block
  // from the send buffer, never from the receive buffer.
  const bool gathers = what.kind == CollectiveKind::allgather && !what.in_place;
  return gathers || what.kind == CollectiveKind::broadcast || what.kind == CollectiveKind::barrier;
}

std::vector<CommunicatorSpec> side_communicators(const CommunicatorSpec& spec) {
  std::vector<CommunicatorSpec> sides;
  if (spec.ranks_per_host == 0) return sides;
  const HostLayout layout = layout_of(spec);
  for (std::uint32_t host = 0; host < layout.hosts; ++host)
    sides.push_back(side_with(spec, layout.ranks_of_host(host)));
  sides.push_back(side_with(spec, layout.ranks_of_place(0)));
  return sides;
}

void HierarchyRank::start(const CollectiveCall& call, Ended ended) {
  jobs_.push_back(
      {hierarchy::HierarchicalCall(stages_by_hosts(call, layout_, false, me_)), std::move(ended)});
  if (jobs_.size() == 1) advance();
}

/// Begins those stages of the oldest call that wait for no other stage. Once all stages of the call
/// have ended, ends the call and continues with the next call.
void HierarchyRank::advance() {
  while (!jobs_.empty()) {
    Job& job = jobs_.front();
    for (std::size_t stage = job.call.ready(); stage != HierarchyStage::kNone;
         stage = job.call.ready()) {
      job.call.begin(stage);
      begin(stage);
    }
    if (!job.call.over()) return;
    const Job over = std::move(job);
    jobs_.pop_front();
    over.ended(over.call.status());
  }
}

void HierarchyRank::begin(std::size_t stage) {
  const HierarchyStage& plan = jobs_.front().call.stage(stage);
  engine::CommunicatorContext& side = side_of(plan);
  auto operation = make_operation(spec_of(plan.call), side.size(), side.rank(), plan.call.send,
                                  plan.call.receive);
  operation->completion()->callback = [this, stage](const Status& status) {
    on_stage_end(stage, status);
  };
  side.operations().submit(std::move(operation));
}

void HierarchyRank::on_stage_end(std::size_t stage, const Status& status) {
  hierarchy::HierarchicalCall& call = jobs_.front().call;
  if (!status.ok()) give_up(status);
  call.end(stage, status);
  advance();
}

/// Aborts this rank's side communicators, within its host and across hosts. The aborts name the
/// ranks at fault, so that all ranks learn which ranks failed.
void HierarchyRank::give_up(const Status& cause) {
  host_.failures().abort_for(cause.ranks(), cause.message());
  if (across_ != nullptr) across_->failures().abort_for(cause.ranks(), cause.message());
}

}  // namespace tutti::simulation
