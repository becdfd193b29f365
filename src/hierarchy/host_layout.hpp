// Host layout: which ranks share a host's memory.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tutti/units.hpp"

namespace tutti::hierarchy {

/// The host of one rank. Ranks of one host have the same `network`; they can share memory if they
/// also have the same `memory`.
struct HostIdentity {
  std::string network;
  std::string memory;
};

/// A partition of all ranks into runs of equal length. Each run has the ranks of one host, or of
/// one part of a host if hosts are divided; such a part counts as a host.
struct HostLayout {
  std::uint32_t hosts = 1;
  std::uint32_t ranks_per_host = 1;
  std::uint32_t parts = 1;  ///< number of parts into which each real host is divided

  /// The layout of all ranks; `ranks` has the host of each rank, in rank order. There is no
  /// hierarchy if the ranks of a host are not consecutive, if hosts have different numbers of
  /// ranks, or if the ranks of a host cannot share memory: the result is then a layout of one host
  /// with one rank.
  static HostLayout of(std::span<const HostIdentity> ranks);

  bool hierarchical() const { return hosts > 1 && ranks_per_host > 1; }
  /// The layout with each host divided into `into` equal parts, which count as hosts. If equal
  /// parts of two or more ranks are impossible, the result is a layout of one host with one rank
  /// (no hierarchy).
  HostLayout divided(std::uint32_t into) const;

  std::uint32_t ranks() const { return hosts * ranks_per_host; }
  std::uint32_t host_of(Rank rank) const { return index(rank) / ranks_per_host; }
  std::uint32_t place_of(Rank rank) const { return index(rank) % ranks_per_host; }
  Rank rank_at(std::uint32_t host, std::uint32_t place) const {
    return rank_of(host * ranks_per_host + place);
  }
  /// The ranks of one host, in rank order.
  std::vector<Rank> ranks_of_host(std::uint32_t host) const;
  /// The ranks with local rank `place`, one on each host.
  std::vector<Rank> ranks_of_place(std::uint32_t place) const;
};

}  // namespace tutti::hierarchy
