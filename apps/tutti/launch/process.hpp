// Starts programs without a shell, in other namespaces if asked, and collects their output.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launch/place.hpp"
#include "tutti/status.hpp"

namespace tutti::launch {

/// A request to start one program.
struct SpawnRequest {
  std::vector<std::string> arguments;    ///< program, looked up by find_program, and its arguments
  std::vector<std::string> environment;  ///< whole environment as "NAME=value"; empty: the caller's
  NetNamespace place;
  std::string host_name;  ///< host name in a new UTS namespace; empty: the caller's
  int input = -1;         ///< descriptors of the program's standard streams; -1: /dev/null
  int output = -1;
  int error = -1;
  /// Signal mask of the program. If it is set, the program also inherits the caller's ignored
  /// signals; if not, no signal is blocked and signals that end a program have their default
  /// action.
  std::optional<sigset_t> signal_mask;
  bool own_group = false;  ///< whether the program leads a new process group
  /// Whether the program is killed when the thread that started it ends.
  bool die_with_launcher = false;
  bool own_sysfs = false;  ///< whether /sys shows the program's own network interfaces
};

/// Starts a program and returns after exec. A namespace that cannot be entered and a program that
/// cannot be executed are errors.
Result<pid_t> spawn(const SpawnRequest& request);

/// The caller's environment with the given "NAME=value" variables added or replaced.
std::vector<std::string> environment_with(std::vector<std::string> variables);

/// Forks a process that enters the namespaces, runs `body` and exits with its result, or with 125
/// if a namespace cannot be entered. Only the calling thread exists in the child, so `body` must be
/// simple.
Result<pid_t> fork_into(const NetNamespace& place, const std::function<int()>& body);

/// Waits for the end of a child and returns its exit status, or 128 + signal if a signal ended it.
Result<int> wait_for(pid_t pid);

/// The exit status and the output of a program that has ended.
struct ProgramOutput {
  int exit_status = 0;  ///< exit status, or 128 + signal if a signal ended the program
  std::string output;
  std::string error;
};

/// Runs a program to its end with this standard input. The result is ok even if the exit status is
/// not 0.
Result<ProgramOutput> run_program(const NetNamespace& place,
                                  const std::vector<std::string>& arguments,
                                  std::string_view input = {});

/// Runs a program whose failure is an error, and returns its standard output. The error names the
/// purpose ("shape the links"), the command and its error output.
Result<std::string> run_checked(const NetNamespace& place,
                                const std::vector<std::string>& arguments, std::string_view input,
                                std::string_view purpose);

/// The path of a program, looked up in PATH and in /usr/sbin and /sbin, which a plain user's PATH
/// often lacks. A name with a slash is returned unchanged.
Result<std::string> find_program(const std::string& name);

}  // namespace tutti::launch
