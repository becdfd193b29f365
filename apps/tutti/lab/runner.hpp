// Runs one program per rank on the hosts of a lab.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "lab/lab.hpp"
#include "tutti/status.hpp"

namespace tutti::lab {

/// The program to run on every host and the limits of the run.
struct RunOptions {
  std::vector<std::string> arguments;    ///< program and its arguments
  std::vector<std::string> environment;  ///< "NAME=value" added to the caller's environment
  int master_port = 29500;
  int ranks_per_host = 1;       ///< ranks 0 to k-1 on the first host, and so on
  int grace_ms = 10'000;        ///< time from the first failure to the SIGTERM for the other ranks
  int timeout_ms = 0;           ///< time for the whole run; 0: no limit
  bool handle_signals = false;  ///< whether SIGINT, SIGTERM and SIGHUP end the ranks, then the run
  /// Receives each line that a rank writes, without its newline. Unset: the line goes to the
  /// standard output or error of this process, prefixed with "[rank] ".
  std::function<void(int rank, bool is_error, std::string_view line)> on_line;
};

/// The result of a run.
struct RunReport {
  std::vector<int> exit_statuses;  ///< by rank; 128 + signal if a signal ended it
  int first_failed = -1;           ///< rank that failed first; -1: none
  /// Exit status of the first failure; 124 after the timeout, 128 + signal if interrupted.
  int exit_status = 0;
  bool timed_out = false;
  int interrupted_by = 0;          ///< signal that interrupted the run; 0: none
  double seconds = 0;              ///< time from the first start to the last end
  std::vector<PortBytes> traffic;  ///< traffic of each host's link during the run
};

/// Runs the program once for each rank of every host and waits for all. Sets RANK, WORLD_SIZE,
/// LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT and TUTTI_INTERFACE. After a failure the
/// other ranks have grace_ms to report, then are ended. The ranks also end with this thread.
Result<RunReport> run_ranks(const Lab& lab, const RunOptions& options);

}  // namespace tutti::lab
