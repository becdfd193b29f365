// The cost of a collective by an algorithm, computed without running it.
#pragma once

#include <cstdint>
#include <string>

#include "bench/exercise.hpp"
#include "device/ip/ip_device.hpp"
#include "tutti/communicator.hpp"

namespace tutti::app {

struct PlanInput {
  Operation operation = Operation::allgather;  ///< Broadcast or Allgather
  std::uint32_t ranks = 4;
  std::uint64_t send_bytes = 0;  ///< message of a Broadcast; block of an Allgather
  std::uint32_t mtu_bytes = 1500;
  bool ipv6 = false;
  device::ip::Multicast multicast = device::ip::Multicast::ud;
  std::uint32_t chunk_bytes = 0;    ///< 0: the device's
  std::uint32_t segment_bytes = 0;  ///< payload of a UC datagram; 0: the most that the MTU allows
  std::uint32_t subgroups = 1;
  std::uint32_t chains = 0;        ///< ranks that multicast at once; 0: learned
  std::uint64_t window_bytes = 0;  ///< bytes that every receiver has posted
};

/// Bytes on the links of hosts without loss, Ethernet headers included.
struct LinkLoad {
  std::uint64_t max_sent = 0;      ///< by the host that sends most
  std::uint64_t max_received = 0;  ///< by the host that receives most
  std::uint64_t total = 0;         ///< sent and received by all hosts
};

struct Plan {
  Algorithm algorithm = Algorithm::multicast;
  std::uint32_t chunk_bytes = 0;  ///< payload of a chunk; for the ring, of a datagram
  std::uint64_t chunks = 0;       ///< chunks of the whole collective, with PSNs 0 to chunks - 1
  std::uint64_t chunks_per_block = 0;
  std::uint32_t datagram_bytes = 0;  ///< payload of a datagram; with UC a chunk has several
  std::uint64_t datagrams_per_block = 0;
  std::uint32_t steps = 0;             ///< turns in a chain of senders, or hops of the ring
  std::uint64_t barrier_messages = 0;  ///< messages of the ready barrier, if it runs
  std::uint64_t messages = 0;          ///< other messages of all ranks
  std::uint64_t credits = 0;           ///< credit messages among them
  LinkLoad data;
  std::uint64_t user_bytes = 0;   ///< size of the caller's buffer on a rank
  std::uint64_t state_bytes = 0;  ///< chunk map and other state on a rank for this collective
};

/// The plan of reliable multicast, with the turns of one chain if the number is learned. Fails if
/// the collective has more chunks than PSNs.
Result<Plan> plan_multicast(const PlanInput& input);
/// The plan of the ring (Allgather) or the chain (Broadcast).
Plan plan_ring(const PlanInput& input);

/// Header bytes of a chunk's datagram down to Ethernet (14 bytes, without preamble and checksum).
std::uint32_t header_bytes(bool ipv6, device::ip::Multicast multicast = device::ip::Multicast::ud);

}  // namespace tutti::app
