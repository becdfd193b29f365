// The hierarchical calls of one rank in a simulation. Their stages run on the rank's two side
// communicators, one call after the other, as in jobs.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "engine/core/communicator_context.hpp"
#include "hierarchy/hierarchical_call.hpp"
#include "hierarchy/host_layout.hpp"
#include "sim/simulation/config.hpp"
#include "tutti/collective.hpp"
#include "tutti/status.hpp"

namespace tutti::simulation {

/// The host layout of a communicator with a hierarchy: each run of `ranks_per_host` consecutive
/// ranks counts as one host.
inline hierarchy::HostLayout layout_of(const CommunicatorSpec& spec) {
  const auto ranks = static_cast<std::uint32_t>(spec.hosts.size());
  return {.hosts = ranks / spec.ranks_per_host, .ranks_per_host = spec.ranks_per_host};
}
/// Whether a communicator that has a hierarchy carries out this collective hierarchically.
bool may_go_by_hosts(const CollectiveSpec& what);
/// Whether this communicator has a hierarchy and carries out this collective hierarchically.
inline bool goes_by_hosts(const CommunicatorSpec& spec, const CollectiveSpec& what) {
  return spec.ranks_per_host > 0 && may_go_by_hosts(what);
}

/// The side communicators of a communicator with a hierarchy: first, for each host, one that
/// contains the ranks on the host; last, one that contains the leaders of all hosts. Their lists of
/// collectives are empty, and the fault rules of the communicator apply to each of them.
std::vector<CommunicatorSpec> side_communicators(const CommunicatorSpec& spec);

class HierarchyRank {
 public:
  using Ended = std::function<void(const Status&)>;

  /// `host` and `across` are the communicator contexts of rank `me` in its two side communicators
  /// and must outlive this object; `across` is null unless the rank is a leader.
  HierarchyRank(const hierarchy::HostLayout& layout, Rank me, engine::CommunicatorContext& host,
                engine::CommunicatorContext* across)
      : layout_(layout), me_(me), host_(host), across_(across) {}

  /// Starts a call, or queues it behind the calls under way. `ended` is called once, when the call
  /// has ended.
  void start(const CollectiveCall& call, Ended ended);

 private:
  struct Job {
    hierarchy::HierarchicalCall call;
    Ended ended;
  };

  engine::CommunicatorContext& side_of(const hierarchy::HierarchyStage& stage) const {
    return stage.side == hierarchy::HierarchySide::host ? host_ : *across_;
  }
  void advance();
  void begin(std::size_t stage);
  void on_stage_end(std::size_t stage, const Status& status);
  void give_up(const Status& cause);

  hierarchy::HostLayout layout_;
  Rank me_;
  engine::CommunicatorContext& host_;
  engine::CommunicatorContext* across_;
  std::deque<Job> jobs_;  ///< calls in order of start; only the first one runs
};

}  // namespace tutti::simulation
