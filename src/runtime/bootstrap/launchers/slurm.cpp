#include "runtime/bootstrap/launchers/slurm.hpp"

#include "base/error.hpp"
#include "runtime/bootstrap/env_bootstrap.hpp"
#include "runtime/bootstrap/store/store_client.hpp"

namespace tutti::runtime {
namespace {

// The port of a job lies above most ports of registered services and below the ports that Linux
// gives to outgoing connections.
constexpr std::uint64_t kFirstPort = 20000;
constexpr std::uint64_t kPorts = 12000;

Result<std::string> master_host(const Environment& environment) {
  if (const auto host = environment("MASTER_ADDR")) return *host;
  for (const char* name : {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"}) {
    if (const auto list = environment(name)) return first_slurm_host(*list);
  }
  return failure(Code::invalid_argument,
                 "SLURM_PROCID is set, but SLURM_STEP_NODELIST, SLURM_JOB_NODELIST and "
                 "MASTER_ADDR are not: set MASTER_ADDR to the host of rank 0");
}

Result<std::uint16_t> master_port(const Environment& environment) {
  for (const char* name : {"TUTTI_MASTER_PORT", "MASTER_PORT"}) {
    const auto port = read_number(environment, name, 65535);
    if (!port.ok()) return port.status();
    if (!*port) continue;
    if (**port != 0) return static_cast<std::uint16_t>(**port);
    return failure(
        Code::invalid_argument,
        "{} is 0, but the bootstrap store needs a fixed port: set it to a port from 1 to "
        "65535, or unset it",
        name);
  }
  const auto job = read_number(environment, "SLURM_JOB_ID", UINT32_MAX);
  if (!job.ok()) return job.status();
  const auto step = read_number(environment, "SLURM_STEP_ID", UINT32_MAX);
  if (!step.ok()) return step.status();
  const std::uint64_t mixed = job->value_or(0) * 31 + step->value_or(0);
  return static_cast<std::uint16_t>(kFirstPort + mixed % kPorts);
}

}  // namespace

Result<std::string> first_slurm_host(std::string_view list) {
  const std::size_t end = list.find_first_of("[,");
  std::string host(list.substr(0, end));
  std::string_view rest = end == list.npos ? std::string_view() : list.substr(end);
  // A host name may contain several bracketed lists, as in "rack[1-2]node[3-4]".
  while (rest.starts_with('[')) {
    const std::size_t close = rest.find(']');
    const std::string_view inside = rest.substr(1, close == rest.npos ? 0 : close - 1);
    const std::string_view first = inside.substr(0, inside.find_first_of(",-"));
    if (close == rest.npos || first.empty()) {
      return failure(Code::invalid_argument,
                     "cannot read the Slurm host list '{}': set MASTER_ADDR to the host of rank 0",
                     list);
    }
    host += first;
    rest.remove_prefix(close + 1);
    const std::size_t next = rest.find_first_of("[,");
    host += rest.substr(0, next);
    rest = next == rest.npos ? std::string_view() : rest.substr(next);
  }
  if (!host.empty()) return host;
  return failure(
      Code::invalid_argument,
      "the Slurm host list '{}' does not begin with a host: set MASTER_ADDR to the host of "
      "rank 0",
      list);
}

Result<std::unique_ptr<Bootstrap>> bootstrap_from_slurm(const Environment& environment,
                                                        Nanoseconds timeout,
                                                        std::optional<crypto::Secret> key) {
  const auto place = read_place(environment, "SLURM_PROCID", "SLURM_NTASKS");
  if (!place.ok()) return place.status();
  if (!*place) {
    return failure(Code::invalid_argument,
                   "slurm:// needs SLURM_PROCID and SLURM_NTASKS: start the program with srun, "
                   "which sets them");
  }
  if ((*place)->size == 1) return make_single_bootstrap("slurm:// (a single rank)");
  const auto host = master_host(environment);
  if (!host.ok()) return host.status();
  const auto port = master_port(environment);
  if (!port.ok()) return port.status();
  const std::string run = run_identity(environment);
  const std::string step = fmt::format("slurm.{}.{}.{}", environment("SLURM_JOB_ID").value_or(""),
                                       environment("SLURM_STEP_ID").value_or(""), run);
  const auto token = make_job_token(step);
  if (!token) return token.status();
  return connect_store({.endpoint = {*host, *port},
                        .rank = (*place)->rank,
                        .size = (*place)->size,
                        .token = *token,
                        .method = "slurm://",
                        .timeout = timeout,
                        .server = nullptr,
                        .key = std::move(key)});
}

}  // namespace tutti::runtime
