// Which cores each place of a lab runs on.
#pragma once

#include <sched.h>

#include <vector>

namespace tutti::lab {

/// The share of each of a lab's places in the cores that this process may use: the hosts', then the
/// aggregators'. Left to the scheduler, places are not the same twice: it leaves a core idle and
/// five of eight hosts on the other for as long as each sleeps now and then.
///
/// With as many cores as places, each gets as many, next to one another. With fewer, each gets one
/// core, where it weighs what it takes and sends in an Allreduce of N bytes: a host 2 N; the
/// aggregators together take N of every host and send N
/// (docs/decisions/013-core-shares-of-aggregators.md).
///
/// Empty where there are fewer than two places: one alone has what its caller has.
std::vector<cpu_set_t> shares_of_cores(int hosts, int aggregators);

}  // namespace tutti::lab
