// The options that a communicator is created with.
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

/// All ranks must agree on the fields marked (all); create() fails and names the field otherwise.
struct CommunicatorOptions {
  /// Device that moves the bytes: "ip"; "host", shared memory for ranks of one host; "auto", host
  /// where all ranks share one and no interface is named, else ip. Empty: TUTTI_DEVICE, else auto.
  /// (all)
  std::string device_name;
  std::string interface;        ///< name or address; empty: TUTTI_INTERFACE, else chosen
  bool ipv6 = false;            ///< IPv6 instead of IPv4 (all)
  std::uint32_t subgroups = 1;  ///< multicast groups that a block is striped over (all)
  /// Receive threads, at most one a subgroup, shared by duplicates. 0: TUTTI_RECEIVE_WORKERS, else
  /// none, and the owner of the engine receives. [Khalilov24]
  std::uint32_t receive_workers = 0;
  std::uint32_t chains = 0;  ///< ranks that multicast at a time; 0: learned [Khalilov24] (all)
  /// Transport of chunks over ip: "ud", a chunk is a datagram; "uc", a chunk is a message of several
  /// datagrams. Empty: TUTTI_MULTICAST, else ud. (all)
  std::string multicast;
  /// How collectives use several hosts with several ranks each, where the device is not named:
  /// "leaders", one rank of each host; "leaders=N", N ranks of each host; "groups", where every rank
  /// exchanges long Allgather blocks with its counterparts on other hosts; "flat". Empty:
  /// TUTTI_HIERARCHY, else leaders. (all)
  std::string hierarchy;
  /// Bytes of a chunk; 0: the most that fits the smallest MTU, or for uc the longest message. (all)
  std::uint32_t chunk_bytes = 0;
  std::uint32_t segment_bytes = 0;  ///< payload bytes of a uc datagram; 0: what the MTU allows
  std::uint64_t window_bytes = 0;   ///< unconfirmed bytes at most; 0: what receive buffers hold
  /// Largest Broadcast, in bytes, that completes at its root once it is sent: the root retains a
  /// copy for retransmission until every rank has acknowledged it, and closing waits for that.
  /// 0: none. Over ip only. (all)
  union {
    std::uint64_t retain_bytes = 256 * 1024;
    [[deprecated("use retain_bytes")]] std::uint64_t keep_bytes;  ///< alias for one release
  };
  bool authenticate = true;          ///< keyed tag on every datagram; false: CRC-32C only (all)
  bool always_barrier = false;       ///< ready barrier before every collective (all)
  std::uint32_t first_sequence = 1;  ///< number of the first collective; wraps at 2^32 (all)
  Nanoseconds peer_timeout{3'000'000'000};     ///< silence after which a watched peer is lost
  Nanoseconds create_timeout{30'000'000'000};  ///< for all ranks to come together
  /// Aggregators that reductions go through, "host:port" each (docs/aggregator.md). Empty:
  /// TUTTI_AGGREGATORS, else none. Only rank 0's list counts.
  std::vector<std::string> aggregators;
  bool aggregator_fallback = false;        ///< go on without an aggregator that cannot be used
  std::shared_ptr<device::Device> device;  ///< instead of device_name: the simulator, a decorator
};

}  // namespace tutti
