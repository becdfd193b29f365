// What a simulated NIC can do and how long it takes: the model behind a simulated endpoint.
#pragma once

#include <cstdint>

#include "tutti/status.hpp"
#include "tutti/units.hpp"

namespace tutti::device::sim {

struct NicSettings {
  std::uint32_t chunk_bytes = 4096;           ///< payload of a packet: the MTU without headers
  std::uint32_t multicast_header_bytes = 76;  ///< LRH 8, GRH 40, BTH 12, DETH 8, immediate 4, CRC 4
  std::uint32_t reliable_header_bytes = 24;   ///< LRH 8, BTH 12, CRC 4
  std::uint32_t acknowledgement_bytes = 28;   ///< the same with AETH 4
  std::uint32_t staging_chunks = 8192;        ///< receives posted, a subgroup each (K2)
  std::uint32_t send_queue_chunks = 256;      ///< multicast sends that wait in the NIC
  std::uint32_t max_send_batch = 64;          ///< chunks that one doorbell takes
  std::uint32_t burst_packets = 4;            ///< that one queue pair sends before the next's turn
  std::uint32_t window_packets = 128;         ///< of a connection, unacknowledged
  std::uint32_t acknowledge_every = 16;       ///< packets of a long operation
  Nanoseconds receive_latency{600};           ///< from the link to the worker's completion queue
  Nanoseconds retransmit_timeout{200'000};
  Nanoseconds retransmit_timeout_max{10'000'000};
  /// The network reorders, so that a gap does not mean a loss: only the time-out resends.
  bool expect_reordering = false;
  bool lossless = false;  ///< the network drops nothing for lack of buffers
  /// The connections are served by the host's worker, as `ip` does it, rather than by the NIC: a
  /// paused host then acknowledges nothing.
  bool host_serviced = false;
  /// False: user data is not carried, only counted and checked by where it belongs; for scale.
  bool carry_bytes = true;
};

/// Whether a NIC can work with these settings.
Status check(const NicSettings& settings);

}  // namespace tutti::device::sim
