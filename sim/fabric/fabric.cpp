#include "sim/fabric/fabric.hpp"

#include "sim/fabric/core/fabric_core.hpp"

namespace tutti::sim {

Fabric::Fabric(EventQueue& queue, const Topology& topology, const FabricSettings& settings,
               Sink& sink)
    : core_(std::make_unique<FabricCore>(queue, topology, settings, sink)) {}
Fabric::~Fabric() = default;

const Topology& Fabric::topology() const { return core_->topology(); }
const FabricSettings& Fabric::settings() const { return core_->settings(); }
Result<GroupId> Fabric::create_group(std::span<const HostId> members, TreeChoice choice) {
  return core_->trees().create(members, choice);
}
std::uint32_t Fabric::trees() const { return core_->trees().roots(); }
Picoseconds Fabric::inject(Picoseconds now, HostId from, const Packet& packet) {
  return core_->inject(now, from, packet);
}
Picoseconds Fabric::port_free(HostId host) const { return core_->port_free(host); }
TrafficCount Fabric::tx(LinkId link) const { return core_->ports().tx(link); }
TrafficCount Fabric::rx(LinkId link) const { return core_->ports().rx(link); }
std::uint64_t Fabric::lost(LinkId link) const { return core_->faults().losses(link); }

TrafficCount Fabric::class_total(LinkClass link_class) const {
  TrafficCount total;
  for (std::uint32_t link = 0; link < topology().links(); ++link) {
    if (topology().link(LinkId{link}).link_class == link_class) total += tx(LinkId{link});
  }
  return total;
}

std::uint64_t Fabric::queue_depth_bytes(LinkId link, Picoseconds now) const {
  const Picoseconds left = core_->ports().busy_until(link) - now;
  if (left.count <= 0) return 0;
  const double bytes_per_second =
      static_cast<double>(topology().specs()[topology().link(link).spec].bits_per_second) / 8;
  return static_cast<std::uint64_t>(to_seconds(left) * bytes_per_second + 0.5);
}

const FabricCounters& Fabric::counters() const { return core_->counters(); }
std::size_t Fabric::memory_bytes() const { return core_->memory_bytes(); }
void Fabric::observe_ports(PortObserver* observer) { core_->observe_ports(observer); }
void Fabric::set_loss(LinkClass link_class, double probability) {
  core_->faults().set_loss(link_class, probability);
}
void Fabric::toggle_loss(LinkId link, std::uint64_t identity) {
  core_->faults().toggle_loss(link, identity);
}
void Fabric::set_link(LinkId link, bool up) { core_->faults().set_link(link, up); }
void Fabric::pause(LinkId link, Picoseconds until) { core_->ports().pause(link, until); }

void Fabric::handle(const Event& event) { core_->handle(event); }

}  // namespace tutti::sim
