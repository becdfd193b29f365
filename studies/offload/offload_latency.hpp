// The latency model of offloaded collectives [Xu25] 2.2: the cost of a message between neighbours,
// term by term, and the two formulas for speedup.
//
// [Xu25] prints the terms without values. Each value here is a fact about the machine of [Xu25], an
// assumption about such hardware, or a calibration at one end point of a figure of [Xu25]. The
// model predicts all other points of the figures.
#pragma once

#include <cstdint>

#include "sim/fabric/time.hpp"

namespace tutti::simulation {

struct OffloadLatency {
  /// L_CPU, the time to build a descriptor and ring the doorbell. Assumed: some tens of stores, one
  /// of them uncached.
  sim::Picoseconds processor = sim::nanoseconds(200);
  /// L_I/O, the time of one crossing of PCIe to an FPGA. Assumed: half of a read's round trip of
  /// 0.9 us.
  sim::Picoseconds bus = sim::nanoseconds(450);
  /// L_network, the time through both FPGAs, the cables and a switch. Calibrated so that formula
  /// (2) yields a speedup of 1.46 for Reduce of 256 B with 1 job.
  sim::Picoseconds network = sim::nanoseconds(2390);
  /// L_Poll, the time until the host's process sees the data. Calibrated so that formula (1) yields
  /// a speedup of 2.11 for Broadcast of 256 B with 1 job.
  sim::Picoseconds poll = sim::nanoseconds(7750);
  /// Rate that determines T_nic_startup, from the interface to the port: four lanes ([Xu25] 2.1) of
  /// 25 Gbit/s (assumed).
  std::uint64_t link_bits_per_second = 100'000'000'000;
  /// Rate that determines T_soft_startup and T_MsgSize, from memory through the interface to the
  /// port. Assumed: the rate at which an FPGA's DMA reads over PCIe 3.0 x16.
  std::uint64_t memory_bits_per_second = 80'000'000'000;
  /// Rate that determines T_Compute: how fast a host adds doubles that have just arrived.
  /// Calibrated so that formula (2) yields a speedup of 2.42 for Reduce of 1 MiB with 1 job.
  std::uint64_t compute_bits_per_second = 80'000'000'000;

  /// L_CPU + 2 L_I/O + L_network: the part of the time of a message from host to host that does not
  /// depend on the length of the message.
  sim::Picoseconds message() const { return processor + bus + bus + network; }
};

/// Speedup of a Broadcast between neighbours by formula (1) of [Xu25] 2.2. An offloaded transfer
/// takes 2 (L_CPU + 2 L_I/O + L_network) + T_MsgSize, a host-based one takes L_Poll more.
/// `startup_bytes` is the data that must arrive before the next node begins.
double broadcast_formula(const OffloadLatency& latency, std::uint64_t startup_bytes);

/// Speedup of a Reduce between neighbours by formula (2) of [Xu25] 2.2: (L_CPU + 2 L_I/O +
/// L_network + T_soft_startup + T_Compute) / (L_network + T_nic_startup).
double reduce_formula(const OffloadLatency& latency, std::uint64_t startup_bytes);

}  // namespace tutti::simulation
