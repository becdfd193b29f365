// Functions for builders.cpp and build_*.cpp only, one for each family of collectives. The caller
// must have checked the call.
#pragma once

#include <vector>

#include "trigger/build/collective_call.hpp"
#include "tutti/status.hpp"

namespace tutti::trigger {

Result<std::vector<DescriptorList>> build_broadcast(const CollectiveCall& call);
Result<std::vector<DescriptorList>> build_reduce_flat(const CollectiveCall& call);
/// Builds Reduce and Allreduce by vector halving and distance doubling.
Result<std::vector<DescriptorList>> build_halving(const CollectiveCall& call);

}  // namespace tutti::trigger
