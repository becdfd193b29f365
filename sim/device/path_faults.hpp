// Faults of the paths between pairs of hosts: packets of reliable connections that vanish because
// of their direction or size, and recorded packets that arrive again later. Multicast is not
// affected.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "sim/fabric/topology.hpp"
#include "tutti/units.hpp"

namespace tutti::device::sim {

/// A fault of the path from one host to another. From the instant `at` on, for the time `length`,
/// the path loses all packets that are longer than `above_bytes` on the wire.
struct PathFault {
  tutti::sim::HostId from{};
  tutti::sim::HostId to{};
  Instant at{};
  Nanoseconds length{0};  ///< duration of the fault; 0: for ever
  std::uint32_t above_bytes = 0;

  friend bool operator==(const PathFault&, const PathFault&) = default;
};

/// The change that a stranger makes to a recorded datagram before sending it.
enum class Forgery : std::uint8_t {
  none,        ///< no change: the copy comes from the address of the host that sent the original
  bit,         ///< one bit of the datagram, drawn anew for each copy, is inverted
  counter,     ///< the counter of the header is higher, as if the datagram were new
  address,     ///< the datagram comes from the stranger's own address
  reflection,  ///< the datagram goes back to the host that sent the original
};

/// A packet that a stranger, a sender outside the job, records and sends again. The stranger
/// records packet `number`, counted from 0, among the packets from host `from` that arrive at host
/// `to`. It sends the first copy after the time `after`, and further copies at intervals of
/// `every`; if `every` is 0, it sends only one copy.
struct Replay {
  tutti::sim::HostId from{};
  tutti::sim::HostId to{};
  std::uint32_t number = 0;
  Nanoseconds after{0};
  Nanoseconds every{0};
  Forgery forgery = Forgery::none;  ///< change of each copy, if the packet is a datagram

  friend bool operator==(const Replay&, const Replay&) = default;
};

class PathFaults {
 public:
  void add(const PathFault& fault) { faults_.push_back(fault); }
  void add(const Replay& replay) { replays_.push_back(replay); }
  /// Whether a packet of this size that `from` sent and that reaches `to` at `now` vanishes.
  bool loses(tutti::sim::HostId from, tutti::sim::HostId to, std::uint32_t wire_bytes,
             Instant now) const;
  /// Counts the arrival of a packet. Returns the replay that records this packet, or null if no
  /// replay does.
  const Replay* recorded(tutti::sim::HostId from, tutti::sim::HostId to);

 private:
  std::vector<PathFault> faults_;
  std::vector<Replay> replays_;
  std::map<std::pair<tutti::sim::HostId, tutti::sim::HostId>, std::uint32_t> arrived_;
};

}  // namespace tutti::device::sim
