// Runs one program per rank on the hosts of a lab.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "lab/lab.hpp"
#include "tutti/status.hpp"

namespace tutti::lab {

/// The program to run on every host, and the limits of the run.
struct RunOptions {
  std::vector<std::string> arguments;  ///< program and its arguments
  /// Variables "NAME=value" for each process. They replace variables of the same name that the lab
  /// sets or that the caller's environment has.
  std::vector<std::string> environment;
  int master_port = 29500;
  int ranks_per_host = 1;  ///< number of ranks on each host; ranks are numbered host by host
  /// Time from the first failure to the SIGTERM for the other ranks, in ms.
  int grace_ms = 10'000;
  int timeout_ms = 0;  ///< time limit of the whole run in ms; 0: no limit
  /// Whether SIGINT, SIGTERM and SIGHUP to this process end the ranks and the run.
  bool handle_signals = false;
  /// Receives each line that a rank writes, without its newline. If unset, the line goes to the
  /// standard output or error of this process, prefixed with "[rank] ".
  std::function<void(int rank, bool is_error, std::string_view line)> on_line;
};

/// The result of a run.
struct RunReport {
  /// Exit statuses indexed by rank; 128 + the signal number if a signal ended the rank.
  std::vector<int> exit_statuses;
  int first_failed = -1;  ///< rank that failed first; -1 if no rank failed
  /// Exit status of the rank that failed first, or 0; 124 if the time limit passed, 128 + signal if
  /// a signal interrupted the run.
  int exit_status = 0;
  bool timed_out = false;
  int interrupted_by = 0;  ///< number of the signal that interrupted the run; 0: none
  /// Time from the first rank's start to the last rank's end, in seconds.
  double seconds = 0;
  std::vector<PortBytes> traffic;  ///< traffic of each host's link during the run, indexed by host
};

/// Runs the program once for each rank of every host and waits for all processes. Sets RANK,
/// WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT, TUTTI_JOB_KEY (a new job
/// key) and TUTTI_INTERFACE for each process. After a failure the other ranks may run for grace_ms;
/// then they get SIGTERM. If the calling thread ends, the kernel ends the ranks, too.
Result<RunReport> run_ranks(const Lab& lab, const RunOptions& options);

}  // namespace tutti::lab
