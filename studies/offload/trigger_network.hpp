// Interfaces like those of [Xu25] in virtual time. Every node has the trigger units, hash buffers
// and pulsed credits of src/trigger with real data; only time is modelled.
//
// A pulse begins once it has its credit, after L_CPU and the transfer of its data over the bus
// (later pulses: only the bus, since the interface counts and fetches by itself). Units process
// arrivals once a tick. A packet of a reduction takes L_network plus its bytes on the link. A
// packet that writes to memory follows formula (1): a control message, then the data, each over
// both buses.
//
// A packet that a node pushes back waits in front of it and is tried again, so none is lost. A run
// in which a buffer overflowed or a result is wrong is an error.
#pragma once

#include <cstdint>

#include "studies/offload/offload_latency.hpp"
#include "trigger/build/builders.hpp"
#include "trigger/pulsed_credits.hpp"
#include "trigger/unit_bank.hpp"
#include "tutti/status.hpp"

namespace tutti::simulation {

struct TriggerNetworkSpec {
  std::uint32_t nodes = 32;  ///< number in [Xu25]; each has a rank of every job
  std::uint32_t jobs = 1;    ///< concurrent jobs, each running the same collective
  trigger::CollectiveKind kind = trigger::CollectiveKind::allreduce;
  std::uint64_t bytes = 1024;  ///< bytes of a job's vector of doubles
  std::uint32_t segment_bytes = 4096;
  OffloadLatency latency{};
  /// If true, jobs of a node queue for its link; otherwise each has its own link, as in the
  /// formulas, which do not consider jobs.
  bool shared_links = false;
  trigger::UnitBank::Settings bank{};
  trigger::PulsedCredits::Settings credits{};
  /// Interval at which units process arrivals; if their outbox is full or a packet was pushed back,
  /// they try again after `retry`.
  sim::Picoseconds tick = sim::nanoseconds(100);
  sim::Picoseconds retry = sim::microseconds(2);
  /// Processes start at a random instant within this time, because of clock offsets and noise.
  sim::Picoseconds start_spread = sim::microseconds(1);
  std::uint64_t seed = 1;
};

struct TriggerNetworkReport {
  sim::Picoseconds time;       ///< from the common start to the last process's end [Xu25] 2.2
  sim::Picoseconds root_time;  ///< to the last end at rank 0
  // At rank 0's node, over all units, as a percentage of their slots without the reserve. A slot in
  // use holds a waiting packet, or is reserved for the packet of a parked read.
  double mean_used_percent = 0;  ///< over `time`
  double peak_used_percent = 0;
  double mean_waiting_percent = 0;  ///< waiting packets only
  // Over all nodes:
  double most_full_percent = 0;  ///< one unit at one instant
  double allowed_percent = 0;    ///< capacity of one unit: slots, reserve, and a place per sequence
  std::uint64_t packets = 0;     ///< accepted packets
  std::uint64_t held_back = 0;   ///< packets that were pushed back at least once
  std::uint64_t pushed_back = 0;  ///< deliveries that were pushed back
  std::uint64_t stalled = 0;      ///< polls in which a full outbox stopped a descriptor
  std::uint64_t posts_deferred = 0;
  std::uint64_t pulses = 0;
  std::uint32_t pulses_in_flight = 0;  ///< largest number at one node
  std::uint32_t pulses_allowed = 0;
  std::uint64_t results_checked = 0;  ///< elements compared
  std::uint64_t digest = 0;
};

/// Errors: invalid_argument (a spec that the units refuse), internal (buffer overrun, wrong result,
/// leftover packets, or no event left).
Result<TriggerNetworkReport> run_trigger_network(const TriggerNetworkSpec& spec);

}  // namespace tutti::simulation
