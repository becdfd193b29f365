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

/// Parameters that an algorithm uses, as bits.
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
  std::string_view summary;  ///< one line for display: rounds and use
  std::uint32_t heeds;
  void (*write)(schedule::Builder&);
  /// Whether it serves the purpose; null if it serves any number of ranks.
  Status (*restriction)(const schedule::Purpose&);
};

/// Every algorithm, grouped by collective.
std::span<const AlgorithmEntry> algorithms();
/// The algorithms of one collective.
std::span<const AlgorithmEntry> algorithms_of(schedule::Collective collective);
/// "ring, bruck, ...".
std::string known_algorithms(schedule::Collective collective);

/// The entry of that name; the error lists the known ones.
Result<const AlgorithmEntry*> find_algorithm(schedule::Collective collective,
                                             std::string_view name);

/// One rank's schedule. Errors (invalid_argument): an unknown algorithm; ranks, root or parameters
/// that it does not serve. The error states the remedy.
Result<schedule::Schedule> build(const schedule::Purpose& purpose);
/// The schedules of all ranks; `purpose.rank` is ignored.
Result<std::vector<schedule::Schedule>> build_all(const schedule::Purpose& purpose);

}  // namespace tutti::collectives
