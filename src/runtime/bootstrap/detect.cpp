#include "runtime/bootstrap/detect.hpp"

#include <string_view>

#include "base/error.hpp"
#include "runtime/bootstrap/env_bootstrap.hpp"
#include "runtime/bootstrap/file_bootstrap.hpp"
#include "runtime/bootstrap/launchers/pmi.hpp"
#include "runtime/bootstrap/launchers/pmix.hpp"
#include "runtime/bootstrap/launchers/slurm.hpp"
#include "runtime/bootstrap/store/store_client.hpp"
#include "runtime/keys/job_key.hpp"

namespace tutti::runtime {
namespace {

constexpr std::uint64_t kMaxTimeoutSeconds = 7 * 24 * 3600;

using Made = Result<std::unique_ptr<Bootstrap>>;
using Key = std::optional<crypto::Secret>;

Result<LauncherRank> required_place(const Environment& environment) {
  const auto place = launcher_place(environment);
  if (!place.ok()) return place.status();
  if (*place) return **place;
  return failure(Code::invalid_argument,
                 "TUTTI_BOOTSTRAP={} needs the rank of this process and the number of ranks: set "
                 "RANK and WORLD_SIZE",
                 environment("TUTTI_BOOTSTRAP").value_or(""));
}

Made from_file(const std::string& directory, const Environment& environment, Nanoseconds timeout) {
  const auto place = required_place(environment);
  if (!place.ok()) return place.status();
  return meet_in_directory({.directory = directory,
                            .run_id = run_identity(environment),
                            .rank = place->rank,
                            .size = place->size,
                            .timeout = timeout});
}

Made from_tcp(const std::string& address, const Environment& environment, Nanoseconds timeout,
              Key key) {
  const auto endpoint = parse_endpoint(address);
  if (!endpoint.ok()) {
    return failure(Code::invalid_argument, "TUTTI_BOOTSTRAP=tcp://{}: {}", address,
                   endpoint.status().message());
  }
  const auto place = required_place(environment);
  if (!place.ok()) return place.status();
  return bootstrap_at(*endpoint, *place, "tcp://", environment, timeout, std::move(key));
}

Made from_request(const std::string& request, const Environment& environment, Nanoseconds timeout,
                  Key key) {
  const std::size_t end = request.find("://");
  const std::string scheme = request.substr(0, end);
  const std::string rest = end == request.npos ? "" : request.substr(end + 3);
  if (end != request.npos && scheme == "file") return from_file(rest, environment, timeout);
  if (end != request.npos && scheme == "tcp")
    return from_tcp(rest, environment, timeout, std::move(key));
  if (end != request.npos && rest.empty()) {
    if (scheme == "env") return bootstrap_from_env(environment, timeout, std::move(key));
    if (scheme == "pmix") return bootstrap_from_pmix(environment, timeout);
    if (scheme == "pmi") return bootstrap_from_pmi(environment, timeout);
    if (scheme == "slurm") return bootstrap_from_slurm(environment, timeout, std::move(key));
    if (scheme == "single") return make_single_bootstrap("single:// by TUTTI_BOOTSTRAP");
  }
  return failure(Code::invalid_argument,
                 "TUTTI_BOOTSTRAP='{}' is unknown: use env://, tcp://host:port, file://directory, "
                 "pmix://, pmi://, slurm:// or single://",
                 request);
}

/// Makes the bootstrap of a process that Open MPI started without usable PMIx. Open MPI then sets
/// only rank and size, and the user must give the address of rank 0.
Made from_open_mpi(const Environment& environment, Nanoseconds timeout, Key key) {
  const auto place = read_place(environment, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE");
  if (!place.ok()) return place.status();
  if ((*place)->size == 1) {
    return make_single_bootstrap("OMPI_COMM_WORLD_RANK (a single rank)");
  }
  const auto master = read_master(environment);
  if (!master.ok()) {
    return failure(Code::invalid_argument,
                   "OMPI_COMM_WORLD_RANK is set, but PMIx cannot be used and the address of rank 0 "
                   "is not known: {}",
                   master.status().message());
  }
  return bootstrap_at(*master, **place, "OMPI_COMM_WORLD_RANK, store", environment, timeout,
                      std::move(key));
}

Made from_pmix(const Environment& environment, Nanoseconds timeout, Key key) {
  for (const auto& [set, unset] :
       {std::pair{"PMIX_RANK", "PMIX_NAMESPACE"}, std::pair{"PMIX_NAMESPACE", "PMIX_RANK"}}) {
    if (!environment(set) || environment(unset)) continue;
    return failure(Code::invalid_argument,
                   "{} is set but {} is not: set both, as the launcher does, or neither", set,
                   unset);
  }
  const bool address_given = environment("OMPI_COMM_WORLD_RANK") && environment("MASTER_ADDR");
  if (!pmix_built_in() && address_given) return from_open_mpi(environment, timeout, std::move(key));
  return bootstrap_from_pmix(environment, timeout);
}

Result<Nanoseconds> read_timeout(const Environment& environment, Nanoseconds otherwise) {
  const auto seconds = read_number(environment, "TUTTI_BOOTSTRAP_TIMEOUT_S", kMaxTimeoutSeconds);
  if (!seconds.ok()) return seconds.status();
  return *seconds ? Nanoseconds(std::chrono::seconds(**seconds)) : otherwise;
}

}  // namespace

Result<std::unique_ptr<Bootstrap>> detect(Nanoseconds timeout, const Environment& environment,
                                          const std::optional<JobKey>& job_key) {
  const auto chosen = read_timeout(environment, timeout);
  if (!chosen.ok()) return chosen.status();
  auto key = find_given_key(job_key, environment);
  if (!key) return key.status();
  const auto set = [&](const char* name) { return environment(name).has_value(); };
  if (const auto request = environment("TUTTI_BOOTSTRAP")) {
    return from_request(*request, environment, *chosen, std::move(*key));
  }
  if (set("RANK") || set("WORLD_SIZE"))
    return bootstrap_from_env(environment, *chosen, std::move(*key));
  if (set("PMIX_RANK") || set("PMIX_NAMESPACE"))
    return from_pmix(environment, *chosen, std::move(*key));
  if (set("PMI_FD") || set("PMI_RANK") || set("PMI_SIZE")) {
    return bootstrap_from_pmi(environment, *chosen);
  }
  if (set("OMPI_COMM_WORLD_RANK") || set("OMPI_COMM_WORLD_SIZE")) {
    return from_open_mpi(environment, *chosen, std::move(*key));
  }
  if (set("SLURM_STEP_ID") && (set("SLURM_PROCID") || set("SLURM_NTASKS"))) {
    return bootstrap_from_slurm(environment, *chosen, std::move(*key));
  }
  return make_single_bootstrap("single process (no launcher found)");
}

}  // namespace tutti::runtime
