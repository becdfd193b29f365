// Running one program per host of a lab, as a launcher of ranks does.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "lab/lab.hpp"
#include "tutti/status.hpp"

namespace tutti::lab {

/// What to run on every host.
struct RunOptions {
  std::vector<std::string> arguments;    ///< program and its arguments
  std::vector<std::string> environment;  ///< "NAME=value" added to the caller's
  int master_port = 29500;
  int ranks_per_host = 1;       ///< ranks 0 to k-1 on the first host, and so on
  int grace_ms = 10'000;        ///< from the first failure until the other ranks are told to end
  int timeout_ms = 0;           ///< for the whole run; 0: none
  bool handle_signals = false;  ///< SIGINT, SIGTERM and SIGHUP end the ranks, then the run
  /// Receives each line that a rank writes (without its end). Unset: the line goes to the standard
  /// output or error of this process, behind "[rank] ".
  std::function<void(int rank, bool is_error, std::string_view line)> on_line;
};

/// How it went.
struct RunReport {
  std::vector<int> exit_statuses;  ///< by rank; 128 + signal where one ended it
  int first_failed = -1;           ///< the rank that failed first
  int exit_status =
      0;  ///< of the first failure; 124 after the timeout, 128 + signal if interrupted
  bool timed_out = false;
  int interrupted_by = 0;          ///< the signal, 0 for none
  double seconds = 0;              ///< from the first start to the last end
  std::vector<PortBytes> traffic;  ///< of each host's link during the run
};

/// Runs the program once for each rank of every host, with RANK, WORLD_SIZE, LOCAL_RANK,
/// LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT and TUTTI_INTERFACE set, and waits for all. When a
/// rank fails, the others have grace_ms to notice and report, then are ended. The ranks also end
/// with this thread.
Result<RunReport> run_ranks(const Lab& lab, const RunOptions& options);

}  // namespace tutti::lab
