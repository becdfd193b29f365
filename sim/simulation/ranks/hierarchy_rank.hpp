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

/// The groups of ranks of a communicator with a hierarchy, as hosts.
inline hierarchy::HostLayout layout_of(const CommunicatorSpec& spec) {
  const auto ranks = static_cast<std::uint32_t>(spec.hosts.size());
  return {.hosts = ranks / spec.ranks_per_host, .ranks_per_host = spec.ranks_per_host};
}
/// Whether a communicator with a hierarchy runs a collective by it.
bool may_go_by_hosts(const CollectiveSpec& what);
/// Whether a communicator runs a collective by its hierarchy.
inline bool goes_by_hosts(const CommunicatorSpec& spec, const CollectiveSpec& what) {
  return spec.ranks_per_host > 0 && may_go_by_hosts(what);
}

/// The side communicators of a communicator, without collectives of their own: first one for each
/// host, then the one of the leaders. The fault rules of the communicator hold in each of them.
std::vector<CommunicatorSpec> side_communicators(const CommunicatorSpec& spec);

class HierarchyRank {
 public:
  using Ended = std::function<void(const Status&)>;

  /// `host` and `across` are the contexts of rank `me` in its side communicators and must outlive
  /// this object; `across` is null at a rank that leads no group.
  HierarchyRank(const hierarchy::HostLayout& layout, Rank me, engine::CommunicatorContext& host,
                engine::CommunicatorContext* across)
      : layout_(layout), me_(me), host_(host), across_(across) {}

  /// Starts a call, or queues it behind the calls under way. `ended` is called once, at its end.
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
  void give_up(const hierarchy::HierarchyStage& failed, const std::string& reason);

  hierarchy::HostLayout layout_;
  Rank me_;
  engine::CommunicatorContext& host_;
  engine::CommunicatorContext* across_;
  std::deque<Job> jobs_;  ///< calls under way; the first one runs
};

}  // namespace tutti::simulation
