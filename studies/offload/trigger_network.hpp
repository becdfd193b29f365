// Network interfaces like those of [Xu25] in virtual time. Every node has the trigger units, hash
// buffers and credits of src/trigger, which handle real data; only time is modelled.
//
// The first credit batch begins after L_CPU and the transfer of its data over the bus; later
// batches need only the transfer, because the interface itself counts responses and fetches data. A
// packet of a reduction takes L_network plus its time on the link; a packet that writes to memory
// takes the time of formula (1).
//
// A node that cannot take a packet pushes it back, and the packet is delivered again later, so no
// packet is lost. A run in which a buffer overflowed or a result is wrong ends with an error.
#pragma once

#include <cstdint>

#include "studies/offload/offload_latency.hpp"
#include "trigger/build/builders.hpp"
#include "trigger/pulsed_credits.hpp"
#include "trigger/unit_bank.hpp"
#include "tutti/status.hpp"

namespace tutti::simulation {

struct TriggerNetworkSpec {
  std::uint32_t nodes = 32;  ///< number of nodes, as in [Xu25]; each node has one rank of every job
  std::uint32_t jobs = 1;    ///< number of concurrent jobs, all with the same collective
  trigger::CollectiveKind kind = trigger::CollectiveKind::allreduce;
  std::uint64_t bytes = 1024;  ///< size of a job's vector of doubles, in bytes
  std::uint32_t segment_bytes = 4096;
  OffloadLatency latency{};
  /// Whether the jobs of a node queue for its link. If false, each job has a link of its own, as in
  /// the formulas of [Xu25], which do not consider jobs.
  bool shared_links = false;
  trigger::UnitBank::Settings bank{};
  trigger::PulsedCredits::Settings credits{};
  /// Time from the first new arrival until the trigger units run.
  sim::Picoseconds tick = sim::nanoseconds(100);
  /// Time until the next attempt after a unit has stalled at a full outbox or completion queue, a
  /// post has been refused, or a packet has been pushed back.
  sim::Picoseconds retry = sim::microseconds(2);
  /// Each process starts at a random instant within this time, which models clock offsets and
  /// noise.
  sim::Picoseconds start_spread = sim::microseconds(1);
  std::uint64_t seed = 1;
};

struct TriggerNetworkReport {
  sim::Picoseconds time;  ///< time from the common start until the last process ends [Xu25] 2.2
  sim::Picoseconds root_time;  ///< time from the common start until the last call at rank 0 ends
  // The next three fields describe all hash buffers of rank 0's node, in percent of their slots
  // outside the reserve for collisions. A slot in use contains a waiting packet, or is reserved for
  // a packet for which a sequence waits.
  double mean_used_percent = 0;  ///< mean share of slots in use over `time`, in percent
  double peak_used_percent = 0;
  double mean_waiting_percent = 0;  ///< mean share of slots that hold waiting packets, in percent
  /// Peak number of packets in one hash buffer, in percent of its slots outside the reserve for
  /// collisions. This field and all fields below it cover all nodes.
  double most_full_percent = 0;
  /// Limit of most_full_percent. A hash buffer has room for one packet in each slot, and for one
  /// packet in the landing place of each sequence.
  double allowed_percent = 0;
  std::uint64_t packets = 0;      ///< number of accepted packets
  std::uint64_t held_back = 0;    ///< number of packets that were pushed back at least once
  std::uint64_t pushed_back = 0;  ///< number of deliveries that were pushed back
  std::uint64_t stalled = 0;      ///< stalls of descriptors at a full outbox or completion queue
  std::uint64_t posts_deferred = 0;
  std::uint64_t pulses = 0;
  std::uint32_t pulses_in_flight = 0;  ///< largest number of credit batches in flight at one node
  std::uint32_t pulses_allowed = 0;
  std::uint64_t results_checked = 0;  ///< number of result elements that were compared
  std::uint64_t digest = 0;
};

/// Runs the collective. Fails with invalid_argument if the trigger units refuse the specification,
/// and with internal if a buffer overflowed, a result is wrong, packets are left over, or a call
/// does not end.
Result<TriggerNetworkReport> run_trigger_network(const TriggerNetworkSpec& spec);

}  // namespace tutti::simulation
