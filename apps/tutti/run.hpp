// `tutti run -n P -- program args`: P local processes that find each other by env://.
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
  bool prefix = true;                ///< "[rank] " before every line of output
  /// What the others get to end by themselves after a rank failed; and, once asked to end by
  /// SIGTERM, before SIGKILL.
  Nanoseconds grace = std::chrono::seconds(10);
  Nanoseconds timeout{0};  ///< for the whole job; 0: none
  /// The network namespace of each rank, "{}" standing for the rank: "lab-h{}" is
  /// /run/netns/lab-h0 for rank 0. Empty: the launcher's own.
  std::string netns;
  std::string master_addr;        ///< empty: 127.0.0.1, which a namespace of its own cannot reach
  std::uint16_t master_port = 0;  ///< 0: a free port (29500 with namespaces)
  int out_fd = 1;
  int err_fd = 2;
};

/// What `tutti run` returns where the job did not end by itself or never began.
inline constexpr int kExitTimeout = 124;
inline constexpr int kExitNotStarted = 125;

/// Runs the job to its end. Sets RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR,
/// MASTER_PORT and TUTTI_RUN_ID for each process (in namespaces of its own every rank is the only
/// local one). Forwards SIGINT and SIGTERM; processes that a rank leaves behind end with it, and
/// all ranks end with the launcher. Returns 0, or the status of the rank that failed first (128 +
/// the number of the signal that ended it), or kExitTimeout, or kExitNotStarted.
int run_command(const RunOptions& options);

/// Registers the subcommand; its run puts the status into `exit_code`, which must outlive `app`'s
/// parsing.
void add_run_command(CLI::App& app, int& exit_code);

}  // namespace tutti::app
