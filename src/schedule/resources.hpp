// The cost of a schedule for one rank: connections, queue pairs, messages and bytes.
#pragma once

#include <cstdint>
#include <vector>

#include "schedule/schedule.hpp"
#include "schedule/shape.hpp"
#include "tutti/status.hpp"

namespace tutti::schedule {

/// The resources that one rank uses in one call of a collective.
struct RankUse {
  std::uint32_t peers = 0;        ///< distinct ranks with which this rank exchanges messages
  std::uint32_t connections = 0;  ///< connections of this rank, as connections_of() counts them
  /// Each connection has three queue pairs: for eager messages, for CTS and for rendezvous data
  /// ([Inozemtsev12] 4.2).
  std::uint32_t queue_pairs = 0;
  std::uint32_t posted_receives = 0;
  std::uint32_t messages_sent = 0;
  std::uint32_t messages_received = 0;
  std::uint64_t bytes_sent = 0;  ///< payload bytes sent; a multicast counts once
  std::uint64_t bytes_received = 0;
  std::uint64_t bytes_copied = 0;
  std::uint64_t bytes_reduced = 0;
  std::uint64_t scratch_bytes = 0;
};

/// Number of queue pairs that each connection needs if the network interface carries out waits and
/// enables.
inline constexpr std::uint32_t kQueuePairsPerConnection = 3;

/// The number of connections, counted as in [Inozemtsev12] 4.2. If a rank sends to exactly the
/// ranks from which it receives, one connection serves both directions; otherwise each direction to
/// or from a rank has a connection of its own.
std::uint32_t connections_of(const Schedule& schedule);

/// The bytes that the rank sends to each destination rank. Multicasts are left out because they
/// have no single destination, and reads because the peer sends their data.
Result<std::vector<std::uint64_t>> bytes_by_destination(const Schedule& schedule,
                                                        const Shape& shape);

/// The resources that one rank uses in a call with the sizes of `shape`.
Result<RankUse> measure(const Schedule& schedule, const Shape& shape);

}  // namespace tutti::schedule
