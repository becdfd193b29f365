// The latency model of offloaded collectives (T6): what a message costs from one node to the next,
// term by term as the source's section 2.2 names them, and its two speedup formulas.
//
// The source prints the terms but no values. Each value here says where it comes from: a fact of
// the source's machine, an assumption about such hardware, or one of three calibrations, each made
// once, at one end point of a figure. Everything else is predicted.
#pragma once

#include <cstdint>

#include "sim/fabric/time.hpp"

namespace tutti::simulation {

struct OffloadLatency {
  /// L_CPU, to build a descriptor and ring for it. Assumed: some tens of stores, one of them
  /// uncached.
  sim::Picoseconds processor = sim::nanoseconds(200);
  /// L_I/O, one way over PCIe to an FPGA. Assumed: half of the 0.9 us that a read there and back
  /// takes.
  sim::Picoseconds bus = sim::nanoseconds(450);
  /// L_network: both FPGAs, cables and a switch. Calibrated: Reduce, 256 B, 1 job gives 1.46 in
  /// formula (2).
  sim::Picoseconds network = sim::nanoseconds(2390);
  /// L_Poll, until a host's process sees what has come. Calibrated: Broadcast, 256 B, 1 job gives
  /// 2.11 in formula (1).
  sim::Picoseconds poll = sim::nanoseconds(7750);
  /// T_nic_startup's slope, from the interface to the port: four lanes (section 2.1) of 25 Gbit/s
  /// (assumed).
  std::uint64_t link_bits_per_second = 100'000'000'000;
  /// T_soft_startup's and T_MsgSize's slope, from memory through the interface to the port.
  /// Assumed: what an FPGA's DMA reads over PCIe 3.0 x16.
  std::uint64_t memory_bits_per_second = 80'000'000'000;
  /// T_Compute's slope: a processor adds doubles that have just come from outside. Calibrated:
  /// Reduce, 1 MiB, 1 job gives 2.42 in formula (2).
  std::uint64_t compute_bits_per_second = 80'000'000'000;

  /// L_CPU + 2 L_I/O + L_network: a message from host to host, its length aside.
  sim::Picoseconds message() const { return processor + bus + bus + network; }
};

/// Formula (1), between neighbours: a transfer takes 2 (L_CPU + 2 L_I/O + L_network) + T_MsgSize,
/// host-based L_Poll more. `startup_bytes`: what must have come before the next node begins.
double broadcast_formula(const OffloadLatency& latency, std::uint64_t startup_bytes);

/// Formula (2), between neighbours: (L_CPU + 2 L_I/O + L_network + T_soft_startup + T_Compute) /
/// (L_network + T_nic_startup).
double reduce_formula(const OffloadLatency& latency, std::uint64_t startup_bytes);

}  // namespace tutti::simulation
