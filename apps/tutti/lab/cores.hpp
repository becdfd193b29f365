// Decides which cores each host and aggregator of a lab runs on.
#pragma once

#include <sched.h>

#include <vector>

#include "lab/options.hpp"

namespace tutti::lab {

/// Divides the cores of this process between the places of a lab, which are its hosts and its
/// aggregators. The result has one set of cores for each host, then one for each aggregator. A
/// fixed division makes runs comparable; the scheduler would place the processes differently in
/// each run.
///
/// If there are at least as many cores as places, each place gets adjacent cores, about equally
/// many. Otherwise each host gets one core. With CoreShares::traffic each aggregator gets one core,
/// too, and all cores move about the same number of bytes in an Allreduce. With CoreShares::hosts
/// all cores have about the same number of hosts, and an aggregator may use any core
/// (docs/decisions/013-core-shares-of-aggregators.md).
///
/// The result is empty for fewer than two places; a single place uses all cores of the caller.
std::vector<cpu_set_t> shares_of_cores(int hosts, int aggregators, CoreShares division);

}  // namespace tutti::lab
