// The latency model of offloaded collectives [Xu25] 2.2: the cost of a message between neighbours,
// term by term, and the two formulas for speedup.
//
// [Xu25] prints the terms without values. Each value below is a fact of the machine in [Xu25], an
// assumption about such hardware, or one of three calibrations at one end point of a figure each.
// All else is predicted.
#pragma once

#include <cstdint>

#include "sim/fabric/time.hpp"

namespace tutti::simulation {

struct OffloadLatency {
  /// L_CPU, to build a descriptor and ring the doorbell. Assumed: some tens of stores, one of them
  /// uncached.
  sim::Picoseconds processor = sim::nanoseconds(200);
  /// L_I/O, one way over PCIe to an FPGA. Assumed: half of a read's 0.9 us round trip.
  sim::Picoseconds bus = sim::nanoseconds(450);
  /// L_network: both FPGAs, cables and a switch. Calibrated: Reduce, 256 B, 1 job gives 1.46 in
  /// formula (2).
  sim::Picoseconds network = sim::nanoseconds(2390);
  /// L_Poll, until the host's process sees the data. Calibrated: Broadcast, 256 B, 1 job gives 2.11
  /// in formula (1).
  sim::Picoseconds poll = sim::nanoseconds(7750);
  /// Slope of T_nic_startup, from the interface to the port: four lanes ([Xu25] 2.1) of 25 Gbit/s
  /// (assumed).
  std::uint64_t link_bits_per_second = 100'000'000'000;
  /// Slope of T_soft_startup and T_MsgSize, from memory through the interface to the port. Assumed:
  /// the rate at which an FPGA's DMA reads over PCIe 3.0 x16.
  std::uint64_t memory_bits_per_second = 80'000'000'000;
  /// Slope of T_Compute, adding doubles that have just arrived. Calibrated: Reduce, 1 MiB, 1 job
  /// gives 2.42 in formula (2).
  std::uint64_t compute_bits_per_second = 80'000'000'000;

  /// L_CPU + 2 L_I/O + L_network: a message from host to host without its length.
  sim::Picoseconds message() const { return processor + bus + bus + network; }
};

/// Formula (1) of [Xu25] 2.2, between neighbours: a transfer takes 2 (L_CPU + 2 L_I/O + L_network)
/// + T_MsgSize, and L_Poll more if host-based. `startup_bytes` must arrive before the next node
/// begins.
double broadcast_formula(const OffloadLatency& latency, std::uint64_t startup_bytes);

/// Formula (2) of [Xu25] 2.2, between neighbours: (L_CPU + 2 L_I/O + L_network + T_soft_startup +
/// T_Compute) / (L_network + T_nic_startup).
double reduce_formula(const OffloadLatency& latency, std::uint64_t startup_bytes);

}  // namespace tutti::simulation
