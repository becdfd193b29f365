// Computes what a collective costs with an algorithm, without running the collective.
#pragma once

#include <cstdint>
#include <string>

#include "bench/exercise.hpp"
#include "device/ip/ip_device.hpp"
#include "tutti/communicator.hpp"

namespace tutti::app {

struct PlanInput {
  Operation operation = Operation::allgather;  ///< collective: Broadcast or Allgather
  std::uint32_t ranks = 4;
  /// Size of a Broadcast's message or of an Allgather's block, in bytes.
  std::uint64_t send_bytes = 0;
  std::uint32_t mtu_bytes = 1500;
  bool ipv6 = false;
  device::ip::Multicast multicast = device::ip::Multicast::ud;
  std::uint32_t chunk_bytes = 0;  ///< payload of a chunk in bytes; 0: chosen by the device
  /// Payload of a UC datagram in bytes; 0: the most that the MTU allows.
  std::uint32_t segment_bytes = 0;
  std::uint32_t subgroups = 1;
  /// Number of ranks that multicast at the same time; 0: learned from measurements.
  std::uint32_t chains = 0;
  /// Receive window: the number of bytes for which every receiver has posted receives.
  std::uint64_t window_bytes = 0;
};

/// Bytes on the links of the hosts, with Ethernet headers, if no packet is lost.
struct LinkLoad {
  std::uint64_t max_sent = 0;      ///< bytes sent by the host that sends most
  std::uint64_t max_received = 0;  ///< bytes received by the host that receives most
  std::uint64_t total = 0;         ///< bytes sent plus bytes received, over all hosts
};

struct Plan {
  Algorithm algorithm = Algorithm::multicast;
  /// Payload of a chunk (multicast) or of a datagram (ring), in bytes.
  std::uint32_t chunk_bytes = 0;
  /// Number of chunks of the whole collective, whose PSNs are 0 to chunks - 1.
  std::uint64_t chunks = 0;
  std::uint64_t chunks_per_block = 0;
  /// Payload of a datagram in bytes; with UC multicast a chunk consists of several datagrams.
  std::uint32_t datagram_bytes = 0;
  std::uint64_t datagrams_per_block = 0;
  /// For multicast, the number of ranks that send one after the other in a chain. For the ring, the
  /// number of hops from rank to rank.
  std::uint32_t steps = 0;
  std::uint64_t barrier_messages = 0;  ///< number of messages that a ready barrier would add
  std::uint64_t messages = 0;  ///< number of messages over all ranks, without the ready barrier
  /// Number of messages that report a consumed credit batch or grant credit; `messages` includes
  /// them.
  std::uint64_t credits = 0;
  LinkLoad data;
  std::uint64_t user_bytes = 0;  ///< size of the caller's buffer on one rank, in bytes
  /// Size of the state that one rank has for this collective, such as the chunk map, in bytes.
  std::uint64_t state_bytes = 0;
};

/// The cost of reliable multicast; computed for one chain if `input.chains` is 0. Error: the
/// collective has more chunks than there are PSNs, or its totals may exceed 64 bits.
Result<Plan> plan_multicast(const PlanInput& input);
/// The cost of the ring (Allgather) or of the chain of ranks (Broadcast), for an input that
/// plan_multicast() accepts.
Plan plan_ring(const PlanInput& input);

/// Total size of the headers of a datagram that carries a chunk, including those of IP and
/// Ethernet, in bytes. The preamble and the checksum of Ethernet are not counted.
std::uint32_t header_bytes(bool ipv6, device::ip::Multicast multicast = device::ip::Multicast::ud);

}  // namespace tutti::app
