// What a collective costs by an algorithm, worked out without running it.
#pragma once

#include <cstdint>
#include <string>

#include "bench/exercise.hpp"
#include "device/ip/ip_device.hpp"
#include "tutti/communicator.hpp"

namespace tutti::app {

struct PlanInput {
  Operation operation = Operation::allgather;  ///< broadcast or allgather
  std::uint32_t ranks = 4;
  std::uint64_t send_bytes = 0;  ///< broadcast: the message; allgather: a rank's block
  std::uint32_t mtu_bytes = 1500;
  bool ipv6 = false;
  device::ip::Multicast multicast = device::ip::Multicast::ud;
  std::uint32_t chunk_bytes = 0;    ///< 0: what the device's is
  std::uint32_t segment_bytes = 0;  ///< of a UC datagram; 0: what the MTU allows
  std::uint32_t subgroups = 1;
  std::uint32_t chains = 0;        ///< 0: learned
  std::uint64_t window_bytes = 0;  ///< what every receiver has posted
};

/// Bytes on the links of hosts, Ethernet headers included, without loss.
struct LinkLoad {
  std::uint64_t max_sent = 0;      ///< by the host that sends most
  std::uint64_t max_received = 0;  ///< by the host that receives most
  std::uint64_t total = 0;         ///< sent and received, all hosts together
};

struct Plan {
  Algorithm algorithm = Algorithm::multicast;
  std::uint32_t chunk_bytes = 0;  ///< payload of a chunk; of the ring: of a datagram
  std::uint64_t chunks = 0;       ///< of the whole collective: multicast PSNs 0 to chunks - 1
  std::uint64_t chunks_per_block = 0;
  std::uint32_t datagram_bytes = 0;  ///< payload of a datagram: by UC several carry a chunk
  std::uint64_t datagrams_per_block = 0;
  std::uint32_t steps = 0;             ///< turns in a chain of senders, or hops of the ring
  std::uint64_t barrier_messages = 0;  ///< only where the ready barrier runs
  std::uint64_t messages = 0;          ///< else, all ranks together
  std::uint64_t credits = 0;           ///< of these, for the receivers' buffers
  LinkLoad data;
  std::uint64_t user_bytes = 0;   ///< the caller's buffer at a rank
  std::uint64_t state_bytes = 0;  ///< chunk map and the like, at a rank, for this collective
};

/// The plan of reliable multicast; the number of turns is that of one chain where it is learned.
/// Fails where the collective has more chunks than PSNs.
Result<Plan> plan_multicast(const PlanInput& input);
/// The plan of the ring (allgather) or the chain (broadcast).
Plan plan_ring(const PlanInput& input);

/// Headers of a chunk's datagram down to Ethernet's (14 bytes; without preamble and checksum).
std::uint32_t header_bytes(bool ipv6, device::ip::Multicast multicast = device::ip::Multicast::ud);

}  // namespace tutti::app
