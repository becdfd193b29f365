#include "sim/fabric/core/fabric_core.hpp"

namespace tutti::sim {

FabricCore::FabricCore(EventQueue& queue, const Topology& topology, const FabricSettings& settings,
                       Sink& sink)
    : queue_(queue),
      topology_(topology),
      settings_(settings),
      sink_(sink),
      hash_seed_(draw(settings.seed, 0x726f'7574'65)),
      ports_(topology.links()),
      sent_by_host_(topology.hosts()),
      loss_cache_(topology.specs().size() * kLinkClasses) {
  for (const LinkSpec& spec : topology.specs()) {
    speeds_.emplace_back(spec.bits_per_second);
    latencies_.push_back(spec.latency);
    queue_times_.push_back(speeds_.back().time_of(settings.queue_bytes));
    any_loss_ = any_loss_ || spec.bit_error_rate > 0;
  }
  for (std::uint32_t at = 0; at < topology.switches(); ++at) {
    if (topology.level(SwitchId{at}) == topology.levels()) tree_roots_.push_back(SwitchId{at});
  }
  first_slices_.push_back(0);
  for (std::uint32_t leaf = 0; leaf < topology.leaves(); ++leaf) {
    const std::uint32_t first = tutti::sim::index(topology.first_host(SwitchId{leaf}));
    for (std::uint32_t i = 0; i < topology.host_count(SwitchId{leaf}); i += 64) {
      slices_.emplace_back().first_host = first + i;
    }
    first_slices_.push_back(static_cast<std::uint32_t>(slices_.size()));
  }
  if (settings.flow_control == FlowControl::lossless) credits_.resize(topology.links());
  waiters_.take();  // index 0 of both means none
  holds_.take();
}

Picoseconds FabricCore::port_free(HostId host) {
  const LinkId link = topology_.host_up(host);
  return waits(link) ? kForever : ports_[tutti::sim::index(link)].busy_until;
}

std::size_t FabricCore::memory_bytes() const {
  std::size_t bytes = ports_.size() * sizeof(FabricPort) + credits_.size() * sizeof(Credit) +
                      slices_.size() * sizeof(Slice) + sent_by_host_.size() * 8 + flights_.bytes() +
                      waiters_.bytes() + holds_.bytes() + leaf_runs_.bytes();
  for (const Credit& credit : credits_) bytes += credit.releases.capacity() * sizeof(Release);
  for (const Group& group : groups_) {
    bytes += group.first_links.size() * 4 + group.links.size() * 4 + group.hosts.size() * 8;
  }
  return bytes;
}

}  // namespace tutti::sim
