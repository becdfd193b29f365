// The table of all algorithms, and functions that build the schedules of an algorithm by its name.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/algorithms.hpp"
#include "schedule/schedule.hpp"
#include "tutti/status.hpp"

namespace tutti::collectives {

/// All algorithms, grouped by collective; the algorithms of one collective are sorted by name.
std::span<const AlgorithmEntry> algorithms();
/// The algorithms of one collective.
std::span<const AlgorithmEntry> algorithms_of(schedule::Collective collective);
/// The names of the collective's algorithms as text: "bruck, linear, ...".
std::string known_algorithms(schedule::Collective collective);

/// Finds an algorithm by its name; the error lists the known names.
Result<const AlgorithmEntry*> find_algorithm(schedule::Collective collective,
                                             std::string_view name);

/// Builds one rank's schedule. Fails with invalid_argument if the algorithm is unknown, or if it
/// does not support the ranks, the root or the parameters; the error text states the remedy.
Result<schedule::Schedule> build(const schedule::Purpose& purpose);
/// Builds the schedules of all ranks; `purpose.rank` is ignored.
Result<std::vector<schedule::Schedule>> build_all(const schedule::Purpose& purpose);

}  // namespace tutti::collectives
