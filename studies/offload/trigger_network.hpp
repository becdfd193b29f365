// Interfaces of the Tianhe kind in virtual time (rows T1 to T6): at every node the trigger units,
// hash buffers and pulsed credits of src/trigger, as they are, with real data; only time is
// modelled.
//
// A pulse begins when its credit is there, and L_CPU and the data's way over the bus later (later
// pulses: the bus only, since the interface counts and fetches by itself). Units look at what has
// come once a tick. A packet of a reduction takes L_network and its bytes on the link; one that
// writes to memory takes formula (1)'s way: a control message, then the data, each over both buses.
// A packet that a node pushes back waits before it and is tried again: nothing is lost, and a run
// in which a buffer held more than it has, or a result is wrong, is an error.
#pragma once

#include <cstdint>

#include "studies/offload/offload_latency.hpp"
#include "trigger/build/builders.hpp"
#include "trigger/pulsed_credits.hpp"
#include "trigger/unit_bank.hpp"
#include "tutti/status.hpp"

namespace tutti::simulation {

struct TriggerNetworkSpec {
  std::uint32_t nodes = 32;  ///< the source's; a rank of every job on each
  std::uint32_t jobs = 1;    ///< at once; each of them the same collective
  trigger::CollectiveKind kind = trigger::CollectiveKind::allreduce;
  std::uint64_t bytes = 1024;  ///< of a job's vector, doubles
  std::uint32_t segment_bytes = 4096;
  OffloadLatency latency{};
  /// Jobs of a node queue for its link; else each has one of its own, as the formulas imply, which
  /// know no jobs.
  bool shared_links = false;
  trigger::UnitBank::Settings bank{};
  trigger::PulsedCredits::Settings credits{};
  /// Units look at what has come so often; where their outboxes are full, and where a packet was
  /// pushed back, it is tried again after `retry`.
  sim::Picoseconds tick = sim::nanoseconds(100);
  sim::Picoseconds retry = sim::microseconds(2);
  /// Processes call at a random instant within this time: their nodes' clocks and noise.
  sim::Picoseconds start_spread = sim::microseconds(1);
  std::uint64_t seed = 1;
};

struct TriggerNetworkReport {
  sim::Picoseconds time;       ///< from the common start to the last process' end (T7)
  sim::Picoseconds root_time;  ///< to the last end at rank 0
  // Of rank 0's node, all units together, as a percentage of their slots without the reserve. A
  // slot is used by a packet that waits there, or held for the packet that a parked read waits for.
  double mean_used_percent = 0;  ///< over `time`
  double peak_used_percent = 0;
  double mean_waiting_percent = 0;  ///< packets alone
  // Of all nodes:
  double most_full_percent = 0;   ///< one unit, at one instant
  double allowed_percent = 0;     ///< what one unit has: slots, reserve, a place per sequence
  std::uint64_t packets = 0;      ///< taken in
  std::uint64_t held_back = 0;    ///< packets that were pushed back at least once
  std::uint64_t pushed_back = 0;  ///< deliveries that were pushed back
  std::uint64_t stalled = 0;      ///< polls in which a full outbox stopped a descriptor
  std::uint64_t posts_deferred = 0;
  std::uint64_t pulses = 0;
  std::uint32_t pulses_in_flight = 0;  ///< most, at one node
  std::uint32_t pulses_allowed = 0;
  std::uint64_t results_checked = 0;  ///< elements
  std::uint64_t digest = 0;
};

/// Errors: invalid_argument (a spec that the units refuse); internal: a buffer was overrun, a
/// result is wrong, packets are left over, or nothing can happen any more.
Result<TriggerNetworkReport> run_trigger_network(const TriggerNetworkSpec& spec);

}  // namespace tutti::simulation
