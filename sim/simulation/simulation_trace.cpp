// Writes the trace of a simulation: the collectives and phases of each rank, the polls of each
// host, and every port.
#include <fmt/format.h>

#include "sim/fabric/port_trace.hpp"
#include "sim/simulation/simulation.hpp"

namespace tutti::simulation {

using observe::TraceTrack;
using sim::to_trace_time;

void Simulation::begin_trace() {
  observe::Trace& trace = *config_.trace;
  rank_tracks_ = trace.add_group("ranks");
  worker_tracks_ = trace.add_group("hosts' workers");
  for (std::uint32_t at = 0; at < members_.size(); ++at) {
    const Member& one = members_[at];
    trace.name_track({rank_tracks_, at}, config_.communicators.size() == 1
                                             ? fmt::format("rank {}", index(one.rank))
                                             : fmt::format("communicator {} rank {}",
                                                           one.communicator, index(one.rank)));
  }
  for (std::uint32_t at = 0; at < hosts_.size(); ++at) {
    if (!hosts_[at].members.empty())
      trace.name_track({worker_tracks_, at}, fmt::format("host {}", at));
  }
  port_trace_ = std::make_unique<sim::PortTrace>(trace, *config_.topology);
  network_->fabric().observe_ports(port_trace_.get());
}

/// Adds the span of a collective. Also adds the spans of its phases, unless the collectives of a
/// rank can overlap.
void Simulation::trace_end(Member& member, const CollectiveEnd& end, CollectiveKind kind) {
  const TraceTrack track{rank_tracks_, static_cast<std::uint32_t>(&member - members_.data())};
  const sim::Picoseconds begin = sim::from_instant(end.submitted_at);
  const sim::Picoseconds whole = sim::from_nanoseconds(end.ended_at - end.submitted_at);
  config_.trace->add(track, to_string(kind), to_trace_time(begin), to_trace_time(whole));
  const observe::Counters& counters = member.context->counters();
  const auto since = [](std::uint64_t now_ns, std::uint64_t& before_ns) {
    const auto passed = static_cast<std::int64_t>(now_ns - before_ns);
    before_ns = now_ns;
    return sim::nanoseconds(passed);
  };
  const sim::Picoseconds ready = since(counters.ready_phase_ns, member.traced_ready_ns);
  const sim::Picoseconds data = since(counters.data_phase_ns, member.traced_data_ns);
  if (config_.communicators[member.communicator].submitted_ahead > 1 || ready + data > whole) {
    return;
  }
  if (ready.count > 0)
    config_.trace->add(track, "barrier", to_trace_time(begin), to_trace_time(ready));
  if (data.count > 0)
    config_.trace->add(track, "data", to_trace_time(begin + ready), to_trace_time(data));
  const sim::Picoseconds rest = whole - ready - data;
  if (rest.count > 0)
    config_.trace->add(track, "handshake", to_trace_time(begin + ready + data),
                       to_trace_time(rest));
}

}  // namespace tutti::simulation
