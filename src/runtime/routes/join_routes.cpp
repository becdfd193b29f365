#include "runtime/routes/join_routes.hpp"

#include <utility>

#include "base/error.hpp"
#include "hierarchy/host_layout.hpp"
#include "runtime/aggregator/aggregator_client.hpp"
#include "runtime/hierarchy/hierarchy.hpp"
#include "runtime/hierarchy/hierarchy_shape.hpp"

namespace tutti::runtime {

using hierarchy::HostLayout;

namespace {

HostLayout layout_of(const std::vector<PeerOptions>& peers) {
  std::vector<hierarchy::HostIdentity> hosts;
  for (const PeerOptions& one : peers) hosts.push_back({one.network, one.memory});
  return HostLayout::of(hosts);
}

}  // namespace

Status join_hosts(CommunicatorImpl& communicator, Bootstrap& bootstrap,
                  const CommunicatorOptions& options) {
  const std::vector<PeerOptions>& peers = communicator.peers();
  const auto shape = HierarchyShape::parse(peers.front().hierarchy);
  if (!shape) return shape.status();
  const HostLayout hosts = layout_of(peers);
  const bool chosen_freely = !options.device && peers.front().device == "auto";
  if (!chosen_freely || !hosts.hierarchical() || shape->flat) return {};
  HostLayout layout = hosts.divided(shape->leaders_per_host);
  std::string note;
  if (!layout.hierarchical()) {
    layout = hosts;
    note = fmt::format(
        "one leader a host: {} ranks a host cannot be divided into {} equal parts of 2 or more",
        hosts.ranks_per_host, shape->leaders_per_host);
  }
  CommunicatorOptions side = options;
  if (!communicator.no_multicast().empty()) side.multicast = "none";
  const auto overruled = [&calls = communicator.calls()](const CollectiveCall& call) {
    return calls.prefers(call);
  };
  auto made =
      Hierarchy::create(bootstrap, side, layout, shape->groups, overruled, communicator.progress(),
                        communicator.child_key(), communicator.context().names());
  if (!made) return made.status();
  if ((*made)->refusal().empty()) {
    communicator.add_route(std::move(*made));
  } else {
    note = "flat: " + (*made)->refusal();
  }
  communicator.set_note(note);
  return {};
}

Status join_aggregators(CommunicatorImpl& communicator, Bootstrap& bootstrap,
                        const CommunicatorOptions& options) {
  if (options.aggregators.empty()) return {};
  auto made = Aggregation::create(bootstrap, options, communicator.progress(),
                                  communicator.child_key(), communicator.context().names());
  if (!made) return made.status();
  communicator.add_route(std::move(*made));
  return {};
}

}  // namespace tutti::runtime
