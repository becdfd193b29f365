#include "hierarchy/host_layout.hpp"

namespace tutti::hierarchy {

HostLayout HostLayout::of(std::span<const HostIdentity> ranks) {
  const auto same_host = [&](std::size_t a, std::size_t b) {
    return ranks[a].network == ranks[b].network && ranks[a].memory == ranks[b].memory;
  };
  HostLayout layout;
  std::size_t length = 1;
  while (length < ranks.size() && same_host(0, length)) ++length;
  if (ranks.size() % length != 0) return {};
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const std::size_t first = r / length * length;
    if (!same_host(first, r)) return {};
    // If the ranks of a host are not consecutive, the result is a layout without hierarchy: two
    // runs of ranks on one host must not count as two hosts.
    for (std::size_t other = first + length; other < ranks.size(); other += length) {
      if (ranks[first].network == ranks[other].network) return {};
    }
  }
  layout.hosts = static_cast<std::uint32_t>(ranks.size() / length);
  layout.ranks_per_host = static_cast<std::uint32_t>(length);
  return layout;
}

HostLayout HostLayout::divided(std::uint32_t into) const {
  if (into == 0 || ranks_per_host % into != 0 || ranks_per_host / into < 2) return {};
  return {hosts * into, ranks_per_host / into, parts * into};
}

std::vector<Rank> HostLayout::ranks_of_host(std::uint32_t host) const {
  std::vector<Rank> ranks;
  for (std::uint32_t p = 0; p < ranks_per_host; ++p) ranks.push_back(rank_at(host, p));
  return ranks;
}

std::vector<Rank> HostLayout::ranks_of_place(std::uint32_t place) const {
  std::vector<Rank> ranks;
  for (std::uint32_t h = 0; h < hosts; ++h) ranks.push_back(rank_at(h, place));
  return ranks;
}

}  // namespace tutti::hierarchy
