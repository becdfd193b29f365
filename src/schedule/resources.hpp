// What a schedule costs: connections, queue pairs, messages and bytes, per rank.
#pragma once

#include <cstdint>
#include <vector>

#include "schedule/schedule.hpp"
#include "schedule/shape.hpp"
#include "tutti/status.hpp"

namespace tutti::schedule {

/// One rank's use in one call.
struct RankUse {
  std::uint32_t peers = 0;        ///< distinct ranks that it exchanges messages with
  std::uint32_t connections = 0;  ///< see connections_of()
  std::uint32_t queue_pairs = 0;  ///< three per connection: eager, CTS, rendezvous data (C6)
  std::uint32_t posted_receives = 0;
  std::uint32_t messages_sent = 0;
  std::uint32_t messages_received = 0;
  std::uint64_t bytes_sent = 0;  ///< a multicast counts once
  std::uint64_t bytes_received = 0;
  std::uint64_t bytes_copied = 0;
  std::uint64_t bytes_reduced = 0;
  std::uint64_t scratch_bytes = 0;
};

/// Queue pairs that an offloaded connection takes.
inline constexpr std::uint32_t kQueuePairsPerConnection = 3;

/// Connections as the source counts them. Where all partners are exchange partners, sent to and
/// received from (Standard Exchange), a connection serves both directions. Otherwise the ranks sent
/// to and those received from have connections of their own (Ring: 2, Bruck: 2 per round), also
/// where one rank happens to be both, as at distance P/2.
std::uint32_t connections_of(const Schedule& schedule);

/// Bytes that the rank sends to each rank, by rank: what its links carry. A multicast, which is
/// for no one rank, and reads, which the peer's links carry, are left out.
Result<std::vector<std::uint64_t>> bytes_by_destination(const Schedule& schedule,
                                                        const Shape& shape);

/// What a call of this shape uses.
Result<RankUse> measure(const Schedule& schedule, const Shape& shape);

}  // namespace tutti::schedule
