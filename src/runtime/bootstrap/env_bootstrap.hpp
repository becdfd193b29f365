// The bootstraps for which the user gives the address of rank 0: env:// in variables, tcp:// in a
// URL.
#pragma once

#include <memory>
#include <optional>

#include "runtime/bootstrap/bootstrap.hpp"
#include "runtime/bootstrap/launchers/launcher_variables.hpp"
#include "runtime/bootstrap/store/socket.hpp"

namespace tutti::runtime {

/// In this file, `key` is the job key, or nothing if the job has no key. With a key the store
/// speaks TLS.

/// The bootstrap env:// by RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT. TUTTI_MASTER_PORT
/// overrides MASTER_PORT; if torchrun uses MASTER_PORT for its own store, Tutti uses the next port.
Result<std::unique_ptr<Bootstrap>> bootstrap_from_env(const Environment& environment,
                                                      Nanoseconds timeout,
                                                      std::optional<crypto::Secret> key = {});

/// Reads the address of rank 0 from MASTER_ADDR and the port variables, as bootstrap_from_env does.
/// An error names the faulty variable.
Result<Endpoint> read_master(const Environment& environment);

/// The bootstrap through a store at an address that all ranks know; rank 0 listens at this address.
/// The text of description() begins with `method`.
Result<std::unique_ptr<Bootstrap>> bootstrap_at(const Endpoint& endpoint, const LauncherRank& place,
                                                const std::string& method,
                                                const Environment& environment, Nanoseconds timeout,
                                                std::optional<crypto::Secret> key);

}  // namespace tutti::runtime
