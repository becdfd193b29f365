// An algorithm as the registry lists it. Each file of this folder that is named COLLECTIVE_NAME.cpp
// contains one algorithm and defines COLLECTIVE_NAME_entries(), which returns the entries of the
// algorithm. The build lists these functions from the file names.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "schedule/builder.hpp"
#include "schedule/schedule.hpp"
#include "tutti/status.hpp"

namespace tutti::collectives {

using schedule::Builder;
using schedule::Collective;
using schedule::Purpose;

/// The parameters that an algorithm uses, as bits.
enum Heeds : std::uint32_t {
  kNothing = 0,
  kPorts = 1,
  kRadix = 2,
  kSegments = 4,
  kChains = 8,
  kReady = 16,
  kHandshake = 32,
};

struct AlgorithmEntry {
  Collective collective;
  std::string_view name;
  /// One line for the user: number of rounds, and when the algorithm is useful.
  std::string_view summary;
  std::uint32_t heeds = kNothing;
  /// Writes the tasks of one rank.
  void (*write)(Builder&);
  /// Checks whether the algorithm supports the ranks and the parameters of a Purpose. The pointer
  /// is null if the algorithm supports any ranks and parameters.
  Status (*restriction)(const Purpose&) = nullptr;
};

/// The entries of one algorithm: one for each collective or variant that it serves.
using AlgorithmEntries = std::span<const AlgorithmEntry>;

/// The generated list of the functions COLLECTIVE_NAME_entries().
std::span<AlgorithmEntries (*const)()> algorithm_files();

}  // namespace tutti::collectives
