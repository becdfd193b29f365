// `tutti run -n N -- program args`: starts N processes on this host, which form one job.
#pragma once

#include <CLI/App.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "tutti/units.hpp"

namespace tutti::app {

struct RunOptions {
  std::uint32_t count = 1;
  std::vector<std::string> program;  ///< program, found by PATH, and its arguments
  bool prefix = true;                ///< whether each line of a rank's output begins with "[rank] "
  /// Time from the first failure to the SIGTERM for the other ranks; also the time from SIGTERM to
  /// SIGKILL.
  Nanoseconds grace = std::chrono::seconds(10);
  Nanoseconds timeout{0};  ///< time limit of the whole job; 0: no limit
  /// Name of each rank's network namespace, in which "{}" is replaced by the rank:
  /// "tutti-lab-h{}" is /run/netns/tutti-lab-h0 for rank 0. Empty: all ranks run in the launcher's namespace.
  std::string netns;
  /// Address of rank 0; empty: 127.0.0.1, which other namespaces cannot reach.
  std::string master_addr;
  std::uint16_t master_port = 0;  ///< port of rank 0; 0: a free port, or 29500 with namespaces
  int out_fd = 1;
  int err_fd = 2;
};

/// Exit statuses of `tutti run` if the job exceeded its time limit, or if it could not be started.
inline constexpr int kExitTimeout = 124;
inline constexpr int kExitNotStarted = 125;

/// Runs the job and waits for its end. Returns 0, the exit status of the rank that failed first
/// (128 + the signal number if a signal ended the rank), kExitTimeout or kExitNotStarted.
///
/// Sets RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT, TUTTI_RUN_ID and
/// TUTTI_JOB_KEY, a new job key, for each process. A rank in its own network namespace counts as
/// the only rank of its host.
/// SIGINT and SIGTERM are forwarded to the ranks. When a rank ends, the rest of its process group
/// is killed; when the launcher ends, all ranks are killed.
int run_command(const RunOptions& options);

/// Registers the subcommand. Running the subcommand sets `exit_code`, which must outlive the
/// parsing of `app`.
void add_run_command(CLI::App& app, int& exit_code);

}  // namespace tutti::app
