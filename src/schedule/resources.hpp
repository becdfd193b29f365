// The cost of a schedule for one rank: connections, queue pairs, messages and bytes.
#pragma once

#include <cstdint>
#include <vector>

#include "schedule/schedule.hpp"
#include "schedule/shape.hpp"
#include "tutti/status.hpp"

namespace tutti::schedule {

/// The resources that one rank uses in one call.
struct RankUse {
  std::uint32_t peers = 0;        ///< distinct ranks with which this rank exchanges messages
  std::uint32_t connections = 0;  ///< connections of this rank, as connections_of() counts them
  /// Three a connection: for eager messages, CTS and rendezvous data ([Inozemtsev12] 4.2).
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

/// Queue pairs of one connection that the network interface drives by itself.
inline constexpr std::uint32_t kQueuePairsPerConnection = 3;

/// Connections as [Inozemtsev12] 4.2 counts them. If a rank sends to exactly the ranks that it
/// receives from, as in Standard Exchange, one connection serves both directions. Otherwise the two
/// directions have separate connections (Ring: 2, Bruck: 2 a round), even to a rank that is both.
std::uint32_t connections_of(const Schedule& schedule);

/// The bytes that the rank sends to each rank, by destination. Multicasts are left out because they
/// have no single destination, and reads because the peer's links carry them.
Result<std::vector<std::uint64_t>> bytes_by_destination(const Schedule& schedule,
                                                        const Shape& shape);

/// The resources that one rank uses in a call with the sizes of `shape`.
Result<RankUse> measure(const Schedule& schedule, const Shape& shape);

}  // namespace tutti::schedule
