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

/// How to start one program.
struct SpawnRequest {
  std::vector<std::string> arguments;  ///< program, found by find_program(), and its arguments
  /// All variables as "NAME=value"; empty: those of the caller.
  std::vector<std::string> environment;
  NetNamespace place;
  std::string host_name;  ///< host name that the program sees; empty: that of the caller
  int input = -1;         ///< descriptors of the program's standard streams; -1: /dev/null
  int output = -1;
  int error = -1;
  /// Signal mask of the program; if it is set, the program also ignores the signals that the caller
  /// ignores. If it is unset, the program blocks no signals, and signals that end a program have
  /// their default action.
  std::optional<sigset_t> signal_mask;
  bool own_group = false;  ///< whether the program leads a new process group
  /// Whether the program is killed when the thread that started it ends.
  bool die_with_launcher = false;
  bool own_sysfs = false;  ///< whether /sys shows the interfaces of the program's network namespace
};

/// Starts a program and returns its process id once exec has succeeded. Error: a namespace cannot
/// be entered, or the program cannot be executed.
Result<pid_t> spawn(const SpawnRequest& request);

/// The caller's environment with the given "NAME=value" variables added or replaced. If two of the
/// given variables have the same name, only the first is used.
std::vector<std::string> environment_with(std::vector<std::string> variables);

/// Forks a child that enters the namespaces, runs `body` and exits with the result of `body`, or
/// with 125 if a namespace cannot be entered. `body` must not take a lock that another thread may
/// hold, because only the calling thread exists in the child.
Result<pid_t> fork_into(const NetNamespace& place, const std::function<int()>& body);

/// Waits for the end of a child and returns its exit status, or 128 + the signal number if a signal
/// ended the child.
Result<int> wait_for(pid_t pid);

/// The exit status and the output of a program that has ended.
struct ProgramOutput {
  int exit_status = 0;  ///< exit status, or 128 + the signal number if a signal ended the program
  std::string output;
  std::string error;
};

/// Runs a program with `input` as its standard input and waits for its end. An exit status other
/// than 0 is not an error.
Result<ProgramOutput> run_program(const NetNamespace& place,
                                  const std::vector<std::string>& arguments,
                                  std::string_view input = {});

/// As run_program(), but returns the standard output, or an error if the exit status is not 0. The
/// error text contains `purpose` (such as "shape the links"), the command, its exit status and its
/// error output.
Result<std::string> run_checked(const NetNamespace& place,
                                const std::vector<std::string>& arguments, std::string_view input,
                                std::string_view purpose);

/// The path of a program, searched in PATH, then in /usr/sbin and /sbin, which the PATH of many
/// users lacks. A name with a slash is returned unchanged.
Result<std::string> find_program(const std::string& name);

}  // namespace tutti::launch
