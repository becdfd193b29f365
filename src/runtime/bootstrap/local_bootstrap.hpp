// The bootstrap for ranks that are threads of one process, as in tests.
#pragma once

#include <memory>
#include <vector>

#include "runtime/bootstrap/bootstrap.hpp"

namespace tutti::runtime {

/// Makes one Bootstrap for each of `size` ranks, in rank order; only one thread may use each
/// Bootstrap. An allgather that times out, or that cannot complete because a Bootstrap was
/// destroyed, fails on every rank and names the missing ranks.
std::vector<std::unique_ptr<Bootstrap>> make_local_bootstraps(std::uint32_t size);

}  // namespace tutti::runtime
