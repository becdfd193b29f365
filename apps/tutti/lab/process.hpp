// Programs started without a shell, inside namespaces, with their output collected.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "lab/place.hpp"
#include "tutti/status.hpp"

namespace tutti::lab {

/// How to start one program.
struct SpawnRequest {
  std::vector<std::string> arguments;  ///< [0] is the program, looked up as find_program does
  std::vector<std::string>
      environment;  ///< "NAME=value", replacing the caller's; empty: the caller's
  NetNamespace place;
  std::string host_name;  ///< in an own UTS namespace; empty: the caller's
  int input = -1;         ///< descriptors for the standard streams; -1: /dev/null
  int output = -1;
  int error = -1;
  bool own_group = false;          ///< leads a new process group
  bool die_with_launcher = false;  ///< killed when the thread that started it ends
  bool own_sysfs = false;          ///< sees its own interfaces under /sys
};

/// Starts a program. Fails if a namespace cannot be entered or the program not be executed, too.
Result<pid_t> spawn(const SpawnRequest& request);

/// Forks; the child enters the place, runs the body and exits with what it returns (125 if the
/// place cannot be entered). The child has only the calling thread: keep the body simple.
Result<pid_t> fork_into(const NetNamespace& place, const std::function<int()>& body);

/// Waits for a child to end: its exit status, or 128 + the signal that ended it.
Result<int> wait_for(pid_t pid);

/// What a finished program left.
struct ProgramOutput {
  int exit_status = 0;  ///< 128 + signal if a signal ended it
  std::string output;
  std::string error;
};

/// Runs a program to its end with this standard input. Ok also if its exit status is not 0.
Result<ProgramOutput> run_program(const NetNamespace& place,
                                  const std::vector<std::string>& arguments,
                                  std::string_view input = {});

/// Runs a program that must succeed, and returns its standard output; a failure tells the command,
/// what it said, and what it was to achieve ("shape the links").
Result<std::string> run_checked(const NetNamespace& place,
                                const std::vector<std::string>& arguments, std::string_view input,
                                std::string_view purpose);

/// The path of a program in PATH or, because a plain user's PATH often lacks them, in the system
/// administrator's folders. Names with a slash stand for themselves.
Result<std::string> find_program(const std::string& name);

}  // namespace tutti::lab
