// The options with which a communicator is created.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tutti/units.hpp"

namespace tutti {

namespace device {
class Device;
}

/// Options of Communicator::create. Fields marked (all) must be equal on all ranks; otherwise
/// create() fails and names the field.
struct CommunicatorOptions {
  /// The device that moves the bytes: "ip"; "host", shared memory for ranks of one host; "auto",
  /// which means "host" if all ranks share a host and no interface is named, and "ip" otherwise.
  /// Empty: TUTTI_DEVICE, else "auto". (all)
  std::string device_name;
  /// Name or address of the network interface; empty: TUTTI_INTERFACE, else chosen.
  std::string interface;
  bool ipv6 = false;            ///< use IPv6 instead of IPv4 (all)
  std::uint32_t subgroups = 1;  ///< multicast subgroups over which each block is striped (all)
  /// Number of receive threads, at most one a subgroup, shared with duplicates of the communicator.
  /// 0: TUTTI_RECEIVE_WORKERS, else none, and the owner of the engine receives. [Khalilov24] 4.3
  std::uint32_t receive_workers = 0;
  /// Ranks that multicast at the same time; 0: learned [Khalilov24] 4.1 (all).
  std::uint32_t chains = 0;
  /// How the ip device multicasts a chunk: "ud", as one datagram; "uc", as one message of several
  /// datagrams. Empty: TUTTI_MULTICAST, else "ud". (all)
  std::string multicast;
  /// How collectives use several hosts with several ranks each if device_name is empty: "leaders",
  /// through one rank a host; "leaders=N", through N ranks a host; "groups", each rank exchanges
  /// long Allgather blocks with the ranks of equal local rank; "flat", no hierarchy. Empty:
  /// TUTTI_HIERARCHY, else "leaders". (all)
  std::string hierarchy;
  /// Size of a chunk in bytes; 0: the largest that fits the smallest MTU, or for uc the longest
  /// message. (all)
  std::uint32_t chunk_bytes = 0;
  /// Payload bytes of a uc datagram; 0: the largest that fits the MTU.
  std::uint32_t segment_bytes = 0;
  /// Most bytes sent but not known to be consumed; 0: what receive buffers hold.
  std::uint64_t window_bytes = 0;
  /// Largest Broadcast, in bytes, that completes at its root as soon as it is sent; 0: none. The
  /// root retains a copy for retransmission until every rank has acknowledged it, and closing waits
  /// for that. For the ip device only. (all)
  union {
    std::uint64_t retain_bytes = 256 * 1024;
    [[deprecated("use retain_bytes")]] std::uint64_t keep_bytes;  ///< alias for one release
  };
  /// True: keyed tag on every datagram; false: CRC-32C only (all).
  bool authenticate = true;
  bool always_barrier = false;       ///< true: ready barrier before every collective (all)
  std::uint32_t first_sequence = 1;  ///< epoch of the first collective; wraps at 2^32 (all)
  /// Silence after which a watched peer is declared lost.
  Nanoseconds peer_timeout{3'000'000'000};
  Nanoseconds create_timeout{30'000'000'000};  ///< time in which all ranks must call create()
  /// Aggregators through which reductions go, "host:port" each (docs/aggregator.md); only rank 0's
  /// list counts. Empty: TUTTI_AGGREGATORS, else none.
  std::vector<std::string> aggregators;
  /// True: reduce without an aggregator if it cannot be used.
  bool aggregator_fallback = false;
  /// Used instead of device_name: the simulator's device, or a decorator.
  std::shared_ptr<device::Device> device;
};

}  // namespace tutti
