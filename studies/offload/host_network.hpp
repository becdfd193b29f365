// The host-based counterparts of offloaded collectives, in virtual time and by the source's latency
// model (section 2.2): the same steps between the same nodes, each carried out by a process.
//
// A process runs the sequence of its rank, descriptor by descriptor, as its processor would: it
// waits for the messages named, adds what it has to add (T_Compute), builds a descriptor (L_CPU),
// whose message goes over the bus, the network and the bus again. The receiver sees what a
// transfer to memory has brought L_Poll later (formula (1)); formula (2) has no such term. Only
// time is simulated: what the steps compute is shown by trigger_network.hpp. Latencies of one
// process overlap, as they do in the formulas.
#pragma once

#include <cstdint>

#include "studies/offload/offload_latency.hpp"
#include "trigger/build/builders.hpp"
#include "tutti/status.hpp"

namespace tutti::simulation {

struct HostNetworkSpec {
  std::uint32_t nodes = 32;
  std::uint32_t jobs = 1;
  trigger::CollectiveKind kind = trigger::CollectiveKind::reduce;
  std::uint64_t bytes = 1024;  ///< of a job's vector, doubles
  std::uint32_t pieces = 1;    ///< a vector is sent in, one behind the other
  OffloadLatency latency{};
  bool shared_links = false;  ///< as in TriggerNetworkSpec
  sim::Picoseconds start_spread = sim::microseconds(1);
  std::uint64_t seed = 1;
};

struct HostNetworkReport {
  sim::Picoseconds time;  ///< from the common start to the last process' end (T7)
  sim::Picoseconds root_time;
  std::uint64_t messages = 0;
  std::uint64_t digest = 0;
};

/// Errors: invalid_argument (no sequence for such a call); internal: a process waits for ever.
Result<HostNetworkReport> run_host_network(const HostNetworkSpec& spec);

}  // namespace tutti::simulation
