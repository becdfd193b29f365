// The bootstraps with a given address: env:// by variables, tcp:// by a URL.
#pragma once

#include <memory>

#include "runtime/bootstrap/bootstrap.hpp"
#include "runtime/bootstrap/launchers/launcher_variables.hpp"
#include "runtime/bootstrap/store/socket.hpp"

namespace tutti::runtime {

/// The bootstrap env:// by RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT. TUTTI_MASTER_PORT
/// overrides MASTER_PORT; if torchrun uses MASTER_PORT for its own store, the port after it is
/// used.
Result<std::unique_ptr<Bootstrap>> bootstrap_from_env(const Environment& environment,
                                                      Nanoseconds timeout);

/// Reads MASTER_ADDR and the port as bootstrap_from_env does; an error names the variable.
Result<Endpoint> read_master(const Environment& environment);

/// The bootstrap by a store at an address that all ranks know; rank 0 listens there. `method` is
/// the beginning of the description.
Result<std::unique_ptr<Bootstrap>> bootstrap_at(const Endpoint& endpoint, const LauncherRank& place,
                                                const std::string& method,
                                                const Environment& environment,
                                                Nanoseconds timeout);

}  // namespace tutti::runtime
