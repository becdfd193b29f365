// The host-based counterparts of offloaded collectives, in virtual time by the latency model of
// [Xu25] 2.2. The nodes exchange the same messages as with offload, but a process on each host
// carries out every step.
//
// A process runs the descriptors of its rank in order. For each descriptor it waits for messages,
// adds their data (T_Compute) and builds a descriptor to send (L_CPU). The message that is sent
// crosses the sender's bus, the network and the receiver's bus. If the message is a transfer to
// memory, the receiver sees its data after a further L_Poll (formula (1)).
//
// Only time is simulated here; trigger_network.hpp also computes the results.
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
  std::uint64_t bytes = 1024;  ///< size of a job's vector of doubles, in bytes
  std::uint32_t pieces = 1;    ///< number of pieces in which a vector is sent
  OffloadLatency latency{};
  bool shared_links = false;  ///< whether jobs share a node's link, as in TriggerNetworkSpec
  sim::Picoseconds start_spread = sim::microseconds(1);
  std::uint64_t seed = 1;
};

struct HostNetworkReport {
  sim::Picoseconds time;  ///< time from the common start until the last process ends [Xu25] 2.2
  sim::Picoseconds root_time;
  std::uint64_t messages = 0;
  std::uint64_t digest = 0;
};

/// Runs the collective. Errors: invalid_argument if a number in `spec` is out of range, those of
/// trigger::build_sequences(), and internal if a process waits forever.
Result<HostNetworkReport> run_host_network(const HostNetworkSpec& spec);

}  // namespace tutti::simulation
