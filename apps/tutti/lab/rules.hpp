// The impairments as nftables rules of the switch: pure functions that return text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lab/options.hpp"

namespace tutti::lab {

/// The switch's port of host i, "p3", and the ends of the detour for late datagrams to it.
std::string port_name(int host);
std::string detour_name(int host);
std::string detour_end_name(int host);

/// Percent as rounded parts per million.
std::uint32_t parts_per_million(double percent);

/// The hosts with impaired ports, ascending and unique.
std::vector<int> impaired_hosts(const Impairments& impairments, int hosts);

/// A script for `nft -f -` that atomically replaces all earlier rules of the lab.
std::string rules_for(const Impairments& impairments, int hosts);

/// The rate of the detour and the size that it counts for each datagram. The rate is low enough for
/// later datagrams to overtake and high enough for the reordered share of a link.
struct DetourShape {
  std::uint64_t rate_bits_per_second = 0;
  std::uint32_t frame_bytes = 0;
};
DetourShape detour_shape(const LabOptions& options);

}  // namespace tutti::lab
