#include "sim/fabric/core/fabric_core.hpp"

namespace tutti::sim {

FabricCore::FabricCore(EventQueue& queue, const Topology& topology, const FabricSettings& settings,
                       Sink& sink)
    : queue_(queue),
      topology_(topology),
      settings_(settings),
      sink_(sink),
      hash_seed_(draw(settings.seed, 0x726f'7574'65)),
      timing_(topology, settings),
      faults_(topology, settings.seed),
      credits_(queue, topology, timing_, settings),
      ports_(topology),
      trees_(topology, ports_, hash_seed_),
      sent_by_host_(topology.hosts()) {}

Picoseconds FabricCore::port_free(HostId host) {
  const LinkId link = topology_.host_up(host);
  return credits_.waits(link) ? kForever : ports_[link].busy_until;
}

std::size_t FabricCore::memory_bytes() const {
  return ports_.bytes() + credits_.bytes() + trees_.bytes() + sent_by_host_.size() * 8 +
         flights_.bytes() + leaf_runs_.bytes();
}

}  // namespace tutti::sim
