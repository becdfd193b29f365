// The bootstrap of ranks that are threads of one process: for tests and in-process jobs.
#pragma once

#include <memory>
#include <vector>

#include "runtime/bootstrap/bootstrap.hpp"

namespace tutti::runtime {

/// Makes one Bootstrap for each of `size` ranks, in rank order; each is used by one thread. An
/// allgather that times out, or that cannot complete because a Bootstrap was destroyed, fails on
/// every rank and names the missing ranks.
std::vector<std::unique_ptr<Bootstrap>> make_local_bootstraps(std::uint32_t size);

}  // namespace tutti::runtime
