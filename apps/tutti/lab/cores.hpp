// Assigns cores to the places of a lab.
#pragma once

#include <sched.h>

#include <vector>

namespace tutti::lab {

/// Divides the cores of this process between the places of a lab: first the hosts, then the
/// aggregators. If the scheduler placed the processes, their placement would differ between runs
/// and might leave cores idle.
///
/// With at least as many cores as places, each place gets an equal number of adjacent cores. With
/// fewer, each place gets one core, chosen so that the bytes that the cores move in an Allreduce
/// are balanced (docs/decisions/013-core-shares-of-aggregators.md).
///
/// The result is empty for fewer than two places: a single place keeps the caller's cores.
std::vector<cpu_set_t> shares_of_cores(int hosts, int aggregators);

}  // namespace tutti::lab
