// Reads the counters of a lab's links from the switch's ports.
#pragma once

#include <cstdint>
#include <vector>

#include "launch/place.hpp"
#include "tutti/status.hpp"

namespace tutti::lab {

/// Traffic of one host's link. A packet is an Ethernet frame, counted without its checksum; the
/// direction tx is from the host to the switch.
struct PortBytes {
  int host = 0;
  std::uint64_t tx_bytes = 0;
  std::uint64_t tx_packets = 0;
  std::uint64_t rx_bytes = 0;
  std::uint64_t rx_packets = 0;
  /// Number of packets towards this host that were dropped because the queue was full; 0 if the
  /// link has no rate limit.
  std::uint64_t queue_drops = 0;

  /// The increase of every counter since an earlier reading.
  PortBytes since(const PortBytes& earlier) const;
};

/// The counters of the switch's ports for hosts 0 to `hosts` - 1. Dropped packets are read only if
/// `shaped`, which means that the links have a rate limit.
Result<std::vector<PortBytes>> read_port_bytes(const launch::NetNamespace& at_switch, int hosts,
                                               bool shaped);

}  // namespace tutti::lab
