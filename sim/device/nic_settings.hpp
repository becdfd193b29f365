// The model of a simulated NIC: its capabilities and delays.
#pragma once

#include <cstdint>

#include "tutti/status.hpp"
#include "tutti/units.hpp"

namespace tutti::device::sim {

/// The party that runs the reliable connections of a simulated endpoint.
enum class ConnectionKind : std::uint8_t {
  nic,  ///< the hardware of the NIC runs the connections (NicConnection)
  /// The host's software runs the connections with the channels of device/rc, like the `ip` device.
  software,
};

struct NicSettings {
  ConnectionKind connections = ConnectionKind::nic;
  std::uint32_t chunk_bytes = 4096;  ///< payload of a packet in bytes: the MTU without headers
  /// Size of the InfiniBand headers of a multicast packet, in bytes: LRH (8), GRH (40), BTH (12),
  /// DETH (8), immediate (4) and CRC (4).
  std::uint32_t multicast_header_bytes = 76;
  /// Size of the InfiniBand headers of a packet of a reliable connection, in bytes: LRH (8), BTH
  /// (12) and CRC (4).
  std::uint32_t reliable_header_bytes = 24;
  /// Size of a packet that carries only an ACK, in bytes: LRH (8), BTH (12), AETH (4) and CRC (4).
  std::uint32_t acknowledgement_bytes = 28;
  /// Number of receives that are posted for each subgroup. [Khalilov24] 3.2
  std::uint32_t staging_chunks = 8192;
  /// Capacity of the NIC's multicast send queue of each subgroup, in chunks.
  std::uint32_t send_queue_chunks = 256;
  std::uint32_t max_send_batch = 64;  ///< at most this many chunks are posted with one call
  /// At most this many packets of one queue pair are sent in one turn at the host's port.
  std::uint32_t burst_packets = 4;
  /// At most this many packets of a connection are unacknowledged.
  std::uint32_t window_packets = 128;
  /// Number of packets of a long operation after which the receiver must send an ACK.
  std::uint32_t acknowledge_every = 16;
  Nanoseconds receive_latency{600};  ///< delay from the link to the worker's completion queue
  Nanoseconds retransmit_timeout{200'000};
  Nanoseconds retransmit_timeout_max{10'000'000};
  /// Whether the network may reorder packets. A gap in the sequence numbers then does not count as
  /// a loss, and only a timeout causes retransmission.
  bool expect_reordering = false;
  /// Whether the NIC stores the old values of atomics big-endian [OFED-AT].
  bool big_endian_atomics = false;
  bool lossless = false;  ///< whether the network drops no packets for lack of buffers
  /// Whether the host's worker serves the connections of the NIC. If so, a host whose worker is
  /// stopped acknowledges nothing.
  bool host_serviced = false;
  /// Whether the endpoint has a slot exchange, like that of the `ip` device between hosts. The slot
  /// exchange has a multicast group of its own and needs ConnectionKind::software.
  bool slot_exchange = false;
  // The four settings below apply only to connections that the host's software runs.
  /// Size of the headers around a datagram, in bytes: Ethernet framing (38), IPv4 (20) and UDP (8).
  std::uint32_t datagram_header_bytes = 66;
  /// Capacities of the host's send queue and receive queue, in datagrams.
  std::uint32_t send_queue_frames = 512;
  std::uint32_t receive_queue_frames = 4096;
  std::uint32_t receive_batch_frames = 4;  ///< at most this many datagrams are received by one call

  /// Whether packets carry user data. If not, only the numbers of bytes and the destination
  /// addresses are checked, and large simulations need less memory.
  bool carry_bytes = true;
};

/// Ok if a NIC can work with these settings; otherwise the error names the bad setting.
Status check(const NicSettings& settings);

}  // namespace tutti::device::sim
