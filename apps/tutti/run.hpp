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
  /// Time between the first failure of a rank and the SIGTERM to the other ranks. The SIGKILL
  /// follows the SIGTERM after the same time.
  Nanoseconds grace = std::chrono::seconds(10);
  Nanoseconds timeout{0};  ///< time limit of the whole job; 0: no limit
  /// Pattern for the name of each rank's network namespace; "{}" stands for the rank. With
  /// "tutti-lab-h{}" rank 0 runs in /run/netns/tutti-lab-h0. Empty: all ranks run in the launcher's
  /// namespace.
  std::string netns;
  /// Address of rank 0; empty: 127.0.0.1, which other namespaces cannot reach.
  std::string master_addr;
  std::uint16_t master_port = 0;  ///< port of rank 0; 0: a free port, or 29500 with namespaces
  int out_fd = 1;
  int err_fd = 2;
};

/// Exit statuses of `tutti run`: kExitTimeout if the job exceeded its time limit, kExitNotStarted
/// if the job could not be started.
inline constexpr int kExitTimeout = 124;
inline constexpr int kExitNotStarted = 125;

/// Runs the job and waits for its end. Returns 0 if all ranks succeeded. After a failure it returns
/// the exit status of the rank that failed first, or 128 + the signal number if a signal ended this
/// rank. Other results are kExitTimeout and kExitNotStarted.
///
/// Sets RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT, TUTTI_RUN_ID and
/// TUTTI_JOB_KEY for each process; TUTTI_JOB_KEY is a new job key. A rank in its own network
/// namespace counts as the only rank of its host.
/// SIGINT and SIGTERM are forwarded to the ranks. When a rank ends, the rest of its process group
/// is killed; when the launcher ends, all ranks are killed.
int run_command(const RunOptions& options);

/// Registers the subcommand. Running the subcommand sets `exit_code`, which must outlive the
/// parsing of `app`.
void add_run_command(CLI::App& app, int& exit_code);

}  // namespace tutti::app
