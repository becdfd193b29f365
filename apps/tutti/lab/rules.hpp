// Writes the impairments of a lab as nftables rules for the switch, as text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lab/options.hpp"

namespace tutti::lab {

/// The name of the switch's port to a host, such as "p3", and the names of the two ends of the
/// detour that delays datagrams to this host.
std::string port_name(int host);
std::string detour_name(int host);
std::string detour_end_name(int host);

/// The percentage as parts per million, rounded to a whole number.
std::uint32_t parts_per_million(double percent);

/// The hosts whose ports are impaired, ascending and unique.
std::vector<int> impaired_hosts(const Impairments& impairments, int hosts);

/// A script for `nft -f -` that atomically replaces all earlier rules of the lab.
std::string rules_for(const Impairments& impairments, int hosts);

/// The rate of the detour that delays datagrams for reordering, and the frame size in bytes that
/// the detour assumes for every datagram. The rate is low enough that later datagrams overtake a
/// delayed one, and high enough to carry all delayed datagrams.
struct DetourShape {
  std::uint64_t rate_bits_per_second = 0;
  std::uint32_t frame_bytes = 0;
};
DetourShape detour_shape(const LabOptions& options);

}  // namespace tutti::lab
