// Impairments as nftables rules of the switch: text in, no side effects.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lab/options.hpp"

namespace tutti::lab {

/// The switch's end of host i's link, "p3"; the ends of the detour that late datagrams to it take.
std::string port_name(int host);
std::string detour_name(int host);
std::string detour_end_name(int host);

/// Percent as parts of a million, rounded.
std::uint32_t parts_per_million(double percent);

/// The hosts whose ports are impaired, ascending and once each.
std::vector<int> impaired_hosts(const Impairments& impairments, int hosts);

/// A script for `nft -f -` that replaces, in one step, all earlier rules of the lab by these.
std::string rules_for(const Impairments& impairments, int hosts);

/// The bytes per second of the detour, slow enough that a datagram on it is overtaken, fast enough
/// to carry the reordered share of a link; and what it counts each datagram as.
struct DetourShape {
  std::uint64_t rate_bits_per_second = 0;
  std::uint32_t frame_bytes = 0;
};
DetourShape detour_shape(const LabOptions& options);

}  // namespace tutti::lab
