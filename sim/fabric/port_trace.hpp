// Adds every port of a simulated fabric to a trace.
#pragma once

#include <cstdint>
#include <vector>

#include "observe/trace.hpp"
#include "sim/fabric/fabric.hpp"
#include "sim/fabric/time.hpp"
#include "sim/fabric/topology.hpp"

namespace tutti::sim {

constexpr observe::TraceTime to_trace_time(Picoseconds time) {
  return observe::TraceTime(time.count);
}

/// Adds one track to the trace for each port of a host or a switch.
class PortTrace final : public PortObserver {
 public:
  /// `trace` and `topology` must outlive this object.
  PortTrace(observe::Trace& trace, const Topology& topology);
  void sent(LinkId link, Picoseconds begin, Picoseconds each, std::uint32_t count,
            const Packet& packet) override;

 private:
  observe::Trace& trace_;
  const Topology& topology_;
  std::uint32_t host_ports_;
  std::uint32_t switch_ports_;
  std::vector<bool> named_;  ///< for each link: whether its track has a name
};

}  // namespace tutti::sim
