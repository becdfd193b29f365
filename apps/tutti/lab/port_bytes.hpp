// Reads the counters of a lab's links from the switch's ports.
#pragma once

#include <cstdint>
#include <vector>

#include "launch/place.hpp"
#include "tutti/status.hpp"

namespace tutti::lab {

/// Traffic of one host's link in Ethernet frames without checksum. The direction tx is from the
/// host to the switch.
struct PortBytes {
  int host = 0;
  std::uint64_t tx_bytes = 0;
  std::uint64_t tx_packets = 0;
  std::uint64_t rx_bytes = 0;
  std::uint64_t rx_packets = 0;
  /// Number of packets that the full queue towards this host dropped (shaped links).
  std::uint64_t queue_drops = 0;

  /// The increase since an earlier reading.
  PortBytes since(const PortBytes& earlier) const;
};

/// The counters of the ports of hosts 0 to `hosts` - 1, read at the switch. Queue drops are read
/// only if the links are `shaped`.
Result<std::vector<PortBytes>> read_port_bytes(const launch::NetNamespace& at_switch, int hosts,
                                               bool shaped);

}  // namespace tutti::lab
