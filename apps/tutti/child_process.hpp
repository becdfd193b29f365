// Starting one rank: everything between fork and exec.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <string>
#include <vector>

#include "tutti/status.hpp"

namespace tutti::app {

struct ChildOptions {
  std::vector<std::string> program;
  std::vector<std::string> variables;  ///< "NAME=value", replacing inherited ones
  std::string netns;                   ///< name below /run/netns; empty: none
  int out_fd = 1;                      ///< becomes its standard output
  int err_fd = 2;
  sigset_t signal_mask{};  ///< what the program starts with
};

/// Starts the program as the leader of a process group of its own, with no standard input; it is
/// killed if the calling thread dies. Returns after exec, so a program that cannot be started is a
/// failure here.
Result<pid_t> start_child(const ChildOptions& options);

}  // namespace tutti::app
