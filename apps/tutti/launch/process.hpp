// Starts programs without a shell, inside namespaces if asked, and collects their output.
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

/// How to start one program.
struct SpawnRequest {
  std::vector<std::string> arguments;    ///< program (found by find_program) and its arguments
  std::vector<std::string> environment;  ///< all of it, "NAME=value"; empty: the caller's
  NetNamespace place;
  std::string host_name;  ///< name in a new UTS namespace; empty: the caller's
  int input = -1;         ///< descriptors of the standard streams; -1: /dev/null
  int output = -1;
  int error = -1;
  /// Signal mask of the program, which then also inherits the caller's ignored signals. Unset: no
  /// signal is blocked, and those that end a program have their default action.
  std::optional<sigset_t> signal_mask;
  bool own_group = false;          ///< whether it leads a new process group
  bool die_with_launcher = false;  ///< whether it is killed when the starting thread ends
  bool own_sysfs = false;          ///< whether /sys shows its own network interfaces
};

/// Starts a program and returns after exec: a namespace that cannot be entered or a program that
/// cannot be executed is a failure here.
Result<pid_t> spawn(const SpawnRequest& request);

/// The caller's environment with these "NAME=value" variables added or replaced.
std::vector<std::string> environment_with(std::vector<std::string> variables);

/// Forks. The child enters the place, runs the body and exits with its result, or with 125 if the
/// place cannot be entered. Only the calling thread exists in the child: keep the body simple.
Result<pid_t> fork_into(const NetNamespace& place, const std::function<int()>& body);

/// Waits for a child to end and returns its exit status, or 128 + the signal that ended it.
Result<int> wait_for(pid_t pid);

/// Exit status and output of a finished program.
struct ProgramOutput {
  int exit_status = 0;  ///< 128 + signal if a signal ended it
  std::string output;
  std::string error;
};

/// Runs a program to its end with this standard input. Ok also if its exit status is not 0.
Result<ProgramOutput> run_program(const NetNamespace& place,
                                  const std::vector<std::string>& arguments,
                                  std::string_view input = {});

/// Runs a program that must succeed and returns its standard output. A failure names the purpose
/// ("shape the links"), the command and its error output.
Result<std::string> run_checked(const NetNamespace& place,
                                const std::vector<std::string>& arguments, std::string_view input,
                                std::string_view purpose);

/// The path of a program in PATH or in /usr/sbin and /sbin, which a plain user's PATH often lacks.
/// A name with a slash is returned unchanged.
Result<std::string> find_program(const std::string& name);

}  // namespace tutti::launch
