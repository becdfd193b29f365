// The table of all algorithms: name, summary, restriction and parameters.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "schedule/builder.hpp"
#include "schedule/schedule.hpp"
#include "tutti/status.hpp"

namespace tutti::collectives {

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
  schedule::Collective collective;
  std::string_view name;
  /// One line for the user: number of rounds, and when the algorithm is useful.
  std::string_view summary;
  std::uint32_t heeds;
  void (*write)(schedule::Builder&);
  /// Function that checks whether the algorithm serves a purpose; null if it serves any number of
  /// ranks.
  Status (*restriction)(const schedule::Purpose&);
};

/// Every algorithm, grouped by collective.
std::span<const AlgorithmEntry> algorithms();
/// The algorithms of one collective.
std::span<const AlgorithmEntry> algorithms_of(schedule::Collective collective);
/// The names of the collective's algorithms as text: "ring, bruck, ...".
std::string known_algorithms(schedule::Collective collective);

/// Finds an algorithm by its name; the error lists the known names.
Result<const AlgorithmEntry*> find_algorithm(schedule::Collective collective,
                                             std::string_view name);

/// Builds one rank's schedule. Fails with invalid_argument, and states the remedy, for an unknown
/// algorithm and for ranks, a root or parameters that the algorithm does not serve.
Result<schedule::Schedule> build(const schedule::Purpose& purpose);
/// Builds the schedules of all ranks; `purpose.rank` is ignored.
Result<std::vector<schedule::Schedule>> build_all(const schedule::Purpose& purpose);

}  // namespace tutti::collectives
