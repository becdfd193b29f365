// The counters of a lab's links, read from the switch's ports.
#pragma once

#include <cstdint>
#include <vector>

#include "launch/place.hpp"
#include "tutti/status.hpp"

namespace tutti::lab {

/// Traffic of one host's link in Ethernet frames without their checksum; tx is the host's uplink.
struct PortBytes {
  int host = 0;
  std::uint64_t tx_bytes = 0;
  std::uint64_t tx_packets = 0;
  std::uint64_t rx_bytes = 0;
  std::uint64_t rx_packets = 0;
  std::uint64_t queue_drops = 0;  ///< packets dropped by the full queue to this host (shaped links)

  /// The difference to an earlier reading.
  PortBytes since(const PortBytes& earlier) const;
};

/// The counters of the ports of hosts 0 to `hosts` - 1, read at the switch; the drops of the queues
/// only where the links are `shaped`.
Result<std::vector<PortBytes>> read_port_bytes(const launch::NetNamespace& at_switch, int hosts,
                                               bool shaped);

}  // namespace tutti::lab
