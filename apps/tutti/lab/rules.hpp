// The impairments as nftables rules of the switch: pure functions that return text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lab/options.hpp"

namespace tutti::lab {

/// The switch's port of host i, such as "p3", and the two ends of the detour for late datagrams to
/// that host.
std::string port_name(int host);
std::string detour_name(int host);
std::string detour_end_name(int host);

/// A percentage in parts per million, rounded.
std::uint32_t parts_per_million(double percent);

/// The hosts whose ports are impaired, ascending and unique.
std::vector<int> impaired_hosts(const Impairments& impairments, int hosts);

/// A script for `nft -f -` that atomically replaces all earlier rules of the lab.
std::string rules_for(const Impairments& impairments, int hosts);

/// The rate of the detour, and the size as which it counts each datagram. The rate is low enough
/// that later datagrams overtake a late one, and high enough for the reordered share of a link.
struct DetourShape {
  std::uint64_t rate_bits_per_second = 0;
  std::uint32_t frame_bytes = 0;
};
DetourShape detour_shape(const LabOptions& options);

}  // namespace tutti::lab
