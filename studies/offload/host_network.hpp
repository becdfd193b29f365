// The host-based counterparts of offloaded collectives, in virtual time by the latency model of
// [Xu25] 2.2: the same steps between the same nodes, each carried out by a process.
//
// A process runs the descriptors of its rank in order. It waits for the messages named, adds
// (T_Compute) and builds a descriptor (L_CPU), whose message passes the bus, the network and the
// receiver's bus. The receiver sees the data of a transfer to memory after a further L_Poll
// (formula (1)); formula (2) has no such term.
//
// Only time is simulated; trigger_network.hpp shows the results. Latencies of one process overlap,
// as in the formulas.
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
  std::uint64_t bytes = 1024;  ///< bytes of a job's vector of doubles
  std::uint32_t pieces = 1;    ///< pieces in which a vector is sent
  OffloadLatency latency{};
  bool shared_links = false;  ///< see TriggerNetworkSpec
  sim::Picoseconds start_spread = sim::microseconds(1);
  std::uint64_t seed = 1;
};

struct HostNetworkReport {
  sim::Picoseconds time;  ///< from the common start to the last process's end [Xu25] 2.2
  sim::Picoseconds root_time;
  std::uint64_t messages = 0;
  std::uint64_t digest = 0;
};

/// Errors: invalid_argument (the call has no sequence), internal (a process waits forever).
Result<HostNetworkReport> run_host_network(const HostNetworkSpec& spec);

}  // namespace tutti::simulation
