// The model of a simulated NIC: its capabilities and delays.
#pragma once

#include <cstdint>

#include "tutti/status.hpp"
#include "tutti/units.hpp"

namespace tutti::device::sim {

struct NicSettings {
  std::uint32_t chunk_bytes = 4096;  ///< payload of a packet in bytes: the MTU without headers
  std::uint32_t multicast_header_bytes = 76;  ///< LRH 8, GRH 40, BTH 12, DETH 8, immediate 4, CRC 4
  std::uint32_t reliable_header_bytes = 24;   ///< LRH 8, BTH 12, CRC 4
  std::uint32_t acknowledgement_bytes = 28;   ///< the same with AETH 4
  std::uint32_t staging_chunks = 8192;    ///< posted receives, one subgroup each [Khalilov24] 3.2
  std::uint32_t send_queue_chunks = 256;  ///< multicast sends queued in the NIC
  std::uint32_t max_send_batch = 64;      ///< chunks that one doorbell accepts
  std::uint32_t burst_packets = 4;        ///< packets that one queue pair sends per turn
  std::uint32_t window_packets = 128;     ///< unacknowledged packets of a connection
  std::uint32_t acknowledge_every = 16;   ///< packets of a long operation between acknowledgements
  Nanoseconds receive_latency{600};       ///< delay from the link to the worker's completion queue
  Nanoseconds retransmit_timeout{200'000};
  Nanoseconds retransmit_timeout_max{10'000'000};
  /// The network reorders: a gap does not mean loss, and only a timeout retransmits.
  bool expect_reordering = false;
  bool lossless = false;  ///< whether the network never drops for lack of buffers
  /// The host's worker serves the connections, as in the `ip` device, instead of the NIC. A paused
  /// host then acknowledges nothing.
  bool host_serviced = false;
  /// If false, user data is not carried but only counted and checked by address, for scale.
  bool carry_bytes = true;
};

/// Whether a NIC can work with these settings.
Status check(const NicSettings& settings);

}  // namespace tutti::device::sim
