#include "runtime/bootstrap/env_bootstrap.hpp"

#include "base/error.hpp"
#include "runtime/bootstrap/store/store_client.hpp"

namespace tutti::runtime {

Result<Endpoint> read_master(const Environment& environment) {
  const auto host = environment("MASTER_ADDR");
  if (!host) {
    return failure(Code::invalid_argument,
                   "MASTER_ADDR is not set: set it to the host name or address of rank 0");
  }
  for (const char* name : {"TUTTI_MASTER_PORT", "MASTER_PORT"}) {
    const auto port = read_number(environment, name, 65535);
    if (!port.ok()) return port.status();
    if (!*port) continue;
    // The agent of torchrun listens at MASTER_PORT, so Tutti's store uses the next port.
    const bool taken =
        name == std::string("MASTER_PORT") && environment("TORCHELASTIC_USE_AGENT_STORE") == "True";
    const std::uint64_t chosen = **port + (taken ? 1 : 0);
    if (**port == 0 || chosen > 65535) {
      return failure(Code::invalid_argument,
                     "{}={} gives no valid port for the bootstrap store: set TUTTI_MASTER_PORT to "
                     "a port from 1 to 65535",
                     name, **port);
    }
    return Endpoint{*host, static_cast<std::uint16_t>(chosen)};
  }
  return failure(Code::invalid_argument,
                 "neither MASTER_PORT nor TUTTI_MASTER_PORT is set: set one to a free TCP port on "
                 "the host of rank 0");
}

Result<std::unique_ptr<Bootstrap>> bootstrap_at(const Endpoint& endpoint, const LauncherRank& place,
                                                const std::string& method,
                                                const Environment& environment, Nanoseconds timeout,
                                                std::optional<crypto::Secret> key) {
  const auto token = make_job_token(run_identity(environment));
  if (!token) return token.status();
  return connect_store({.endpoint = endpoint,
                        .rank = place.rank,
                        .size = place.size,
                        .token = *token,
                        .method = method,
                        .timeout = timeout,
                        .server = nullptr,
                        .key = std::move(key)});
}

Result<std::unique_ptr<Bootstrap>> bootstrap_from_env(const Environment& environment,
                                                      Nanoseconds timeout,
                                                      std::optional<crypto::Secret> key) {
  const auto place = read_place(environment, "RANK", "WORLD_SIZE");
  if (!place.ok()) return place.status();
  if (!*place) {
    return failure(Code::invalid_argument,
                   "env:// needs RANK and WORLD_SIZE, and neither is set: start the program with "
                   "'tutti run' or torchrun, or set both");
  }
  if ((*place)->size == 1) return make_single_bootstrap("env:// (a single rank)");
  const auto master = read_master(environment);
  if (!master.ok()) return master.status();
  return bootstrap_at(*master, **place, "env://", environment, timeout, std::move(key));
}

}  // namespace tutti::runtime
