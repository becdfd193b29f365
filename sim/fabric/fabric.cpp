#include "sim/fabric/fabric.hpp"

#include "sim/fabric/fabric_core.hpp"

namespace tutti::sim {

void Sink::arrived_on_leaf(const Arrival& arrival, HostId first, std::uint64_t hosts,
                           const Packet& packet) {
  for (std::uint64_t rest = hosts; rest != 0; rest &= rest - 1) {
    const auto host = index(first) + static_cast<std::uint32_t>(std::countr_zero(rest));
    arrived(arrival, HostId{host}, packet);
  }
}
void Sink::dropped(const Arrival&, LinkId, const Packet&, DropReason) {}
void Sink::departed(Picoseconds, HostId, const Packet&) {}

Fabric::Core::Core(EventQueue& queue, const Topology& topology, const FabricSettings& settings,
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

Picoseconds Fabric::Core::port_free(HostId host) {
  const LinkId link = topology_.host_up(host);
  return waits(link) ? kForever : ports_[tutti::sim::index(link)].busy_until;
}

std::size_t Fabric::Core::memory_bytes() const {
  std::size_t bytes = ports_.size() * sizeof(FabricPort) + credits_.size() * sizeof(Credit) +
                      slices_.size() * sizeof(Slice) + sent_by_host_.size() * 8 + flights_.bytes() +
                      waiters_.bytes() + holds_.bytes() + leaf_runs_.bytes();
  for (const Credit& credit : credits_) bytes += credit.releases.capacity() * sizeof(Release);
  for (const Group& group : groups_) {
    bytes += group.first_links.size() * 4 + group.links.size() * 4 + group.hosts.size() * 8;
  }
  return bytes;
}

Fabric::Fabric(EventQueue& queue, const Topology& topology, const FabricSettings& settings,
               Sink& sink)
    : core_(std::make_unique<Core>(queue, topology, settings, sink)) {}
Fabric::~Fabric() = default;

const Topology& Fabric::topology() const { return core_->topology(); }
const FabricSettings& Fabric::settings() const { return core_->settings(); }
Result<GroupId> Fabric::create_group(std::span<const HostId> members, TreeChoice choice) {
  return core_->create_group(members, choice);
}
std::uint32_t Fabric::trees() const { return core_->trees(); }
Picoseconds Fabric::inject(Picoseconds now, HostId from, const Packet& packet) {
  return core_->inject(now, from, packet);
}
Picoseconds Fabric::port_free(HostId host) const { return core_->port_free(host); }
TrafficCount Fabric::tx(LinkId link) const { return core_->tx(link); }
TrafficCount Fabric::rx(LinkId link) const { return core_->rx(link); }

TrafficCount Fabric::class_total(LinkClass link_class) const {
  TrafficCount total;
  for (std::uint32_t link = 0; link < topology().links(); ++link) {
    if (topology().link(LinkId{link}).link_class == link_class) total += core_->tx(LinkId{link});
  }
  return total;
}

std::uint64_t Fabric::queue_depth_bytes(LinkId link, Picoseconds now) const {
  const Picoseconds left = core_->busy_until(link) - now;
  if (left.count <= 0) return 0;
  const double bytes_per_second =
      static_cast<double>(topology().specs()[topology().link(link).spec].bits_per_second) / 8;
  return static_cast<std::uint64_t>(to_seconds(left) * bytes_per_second + 0.5);
}

const FabricCounters& Fabric::counters() const { return core_->counters(); }
std::size_t Fabric::memory_bytes() const { return core_->memory_bytes(); }
void Fabric::observe_ports(PortObserver* observer) { core_->observe_ports(observer); }
void Fabric::set_loss(LinkClass link_class, double probability) {
  core_->set_loss(link_class, probability);
}
void Fabric::toggle_loss(LinkId link, std::uint64_t identity) {
  core_->toggle_loss(link, identity);
}
void Fabric::set_link(LinkId link, bool up) { core_->set_link(link, up); }
void Fabric::pause(LinkId link, Picoseconds until) { core_->pause(link, until); }

}  // namespace tutti::sim
