// Which ranks share a host's memory.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/communicator/greeting.hpp"
#include "tutti/units.hpp"

namespace tutti::runtime {

/// A partition of all ranks into runs of equal length. A run has the ranks of one host, or of a part
/// of one, which then counts as a host.
struct HostLayout {
  std::uint32_t hosts = 1;
  std::uint32_t ranks_per_host = 1;
  std::uint32_t parts = 1;  ///< of each real host

  /// One host of one rank if the ranks of a host are not consecutive, differ in number, or cannot
  /// share memory.
  static HostLayout of(const std::vector<PeerOptions>& greetings);

  bool hierarchical() const { return hosts > 1 && ranks_per_host > 1; }
  /// Each host as `into` hosts; one host of one rank if a part would have fewer than two ranks.
  HostLayout divided(std::uint32_t into) const;

  std::uint32_t ranks() const { return hosts * ranks_per_host; }
  std::uint32_t host_of(Rank rank) const { return index(rank) / ranks_per_host; }
  std::uint32_t place_of(Rank rank) const { return index(rank) % ranks_per_host; }
  Rank rank_at(std::uint32_t host, std::uint32_t place) const {
    return rank_of(host * ranks_per_host + place);
  }
  /// The ranks of one host.
  std::vector<Rank> ranks_of_host(std::uint32_t host) const;
  /// The ranks with this place, one of each host.
  std::vector<Rank> ranks_of_place(std::uint32_t place) const;
};

}  // namespace tutti::runtime
