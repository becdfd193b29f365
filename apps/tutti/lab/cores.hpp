// The assignment of cores to the places of a lab.
#pragma once

#include <sched.h>

#include <vector>

namespace tutti::lab {

/// Divides the cores of this process between the places of a lab: the hosts, then the aggregators.
/// Left to the scheduler, the placement differs between runs and may leave cores idle.
///
/// With at least as many cores as places, each place gets an equal number of adjacent cores. With
/// fewer, each gets one core, balanced by the bytes that it moves in an Allreduce
/// (docs/decisions/013-core-shares-of-aggregators.md).
///
/// Empty for fewer than two places: a single place keeps the caller's cores.
std::vector<cpu_set_t> shares_of_cores(int hosts, int aggregators);

}  // namespace tutti::lab
