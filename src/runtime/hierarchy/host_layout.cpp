#include "runtime/hierarchy/host_layout.hpp"

namespace tutti::runtime {

HostLayout HostLayout::of(const std::vector<PeerOptions>& greetings) {
  const auto same_host = [&](std::size_t a, std::size_t b) {
    return greetings[a].network == greetings[b].network &&
           greetings[a].memory == greetings[b].memory;
  };
  HostLayout layout;
  std::size_t length = 1;
  while (length < greetings.size() && same_host(0, length)) ++length;
  if (greetings.size() % length != 0) return {};
  for (std::size_t r = 0; r < greetings.size(); ++r) {
    const std::size_t first = r / length * length;
    if (!same_host(first, r)) return {};
    // If the ranks of one host form two runs, these must not count as two hosts, so the result is a
    // layout without hierarchy.
    for (std::size_t other = first + length; other < greetings.size(); other += length) {
      if (greetings[first].network == greetings[other].network) return {};
    }
  }
  layout.hosts = static_cast<std::uint32_t>(greetings.size() / length);
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

}  // namespace tutti::runtime
