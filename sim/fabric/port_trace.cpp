#include "sim/fabric/port_trace.hpp"

#include <fmt/format.h>

namespace tutti::sim {
namespace {

std::string name_of_port(const Topology& topology, LinkId link) {
  const Link& wire = topology.link(link);
  const char* from = wire.link_class == LinkClass::host_up ? "host" : "switch";
  const char* to = wire.link_class == LinkClass::host_down ? "host" : "switch";
  return fmt::format("{} {} to {} {}", from, wire.from, to, wire.to);
}

}  // namespace

PortTrace::PortTrace(observe::Trace& trace, const Topology& topology)
    : trace_(trace),
      topology_(topology),
      host_ports_(trace.add_group("host ports")),
      switch_ports_(trace.add_group("switch ports")),
      named_(topology.links()) {}

void PortTrace::sent(LinkId link, Picoseconds begin, Picoseconds each, std::uint32_t count,
                     const Packet& packet) {
  const bool of_host = topology_.link(link).link_class == LinkClass::host_up;
  const observe::TraceTrack track{of_host ? host_ports_ : switch_ports_, index(link)};
  if (!named_[index(link)]) {
    named_[index(link)] = true;
    trace_.name_track(track, name_of_port(topology_, link));
  }
  const char* name = "unicast";
  if (packet.background) name = "background";
  if (packet.multicast) name = "multicast";
  if (packet.reduced) name = "contribution";
  trace_.add(track, name, to_trace_time(begin), to_trace_time(each * count));
}

}  // namespace tutti::sim
