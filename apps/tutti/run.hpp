// `tutti run -n P -- program args`: starts P local processes that join by env://.
#pragma once

#include <CLI/App.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "tutti/units.hpp"

namespace tutti::app {

struct RunOptions {
  std::uint32_t count = 1;
  std::vector<std::string> program;  ///< the program (looked up in PATH) and its arguments
  bool prefix = true;                ///< whether each line of output begins with "[rank] "
  /// Time for the other ranks to end after the first failure, and again between SIGTERM and
  /// SIGKILL.
  Nanoseconds grace = std::chrono::seconds(10);
  Nanoseconds timeout{0};  ///< time for the whole job; 0: no limit
  /// Network namespace of each rank, with "{}" replaced by the rank: "lab-h{}" is /run/netns/lab-h0
  /// for rank 0. Empty: the launcher's.
  std::string netns;
  std::string master_addr;        ///< empty: 127.0.0.1, which other namespaces cannot reach
  std::uint16_t master_port = 0;  ///< 0: a free port (29500 with namespaces)
  int out_fd = 1;
  int err_fd = 2;
};

/// Exit statuses of `tutti run` for a job that timed out or did not start.
inline constexpr int kExitTimeout = 124;
inline constexpr int kExitNotStarted = 125;

/// Runs the job to its end and returns 0, the status of the rank that failed first (128 + signal if
/// a signal ended it), kExitTimeout or kExitNotStarted. Sets RANK, WORLD_SIZE, LOCAL_RANK,
/// LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT and TUTTI_RUN_ID for each process; a rank in its own
/// namespace is the only local one. Forwards SIGINT and SIGTERM. Processes that a rank leaves
/// behind end with it, and all ranks end with the launcher.
int run_command(const RunOptions& options);

/// Registers the subcommand. Its run sets `exit_code`, which must outlive the parsing of `app`.
void add_run_command(CLI::App& app, int& exit_code);

}  // namespace tutti::app
