// The bootstrap of ranks that are threads of one process: for tests and in-process jobs.
#pragma once

#include <memory>
#include <vector>

#include "runtime/bootstrap/bootstrap.hpp"

namespace tutti::runtime {

/// One Bootstrap for each of `size` ranks, in rank order. Each is used by one thread. An allgather
/// that times out, or that a destroyed Bootstrap can no longer join, fails on every rank, naming
/// the ranks that are missing.
std::vector<std::unique_ptr<Bootstrap>> make_local_bootstraps(std::uint32_t size);

}  // namespace tutti::runtime
