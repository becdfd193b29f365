// The exit statuses of the `tutti` commands, and how a command reports a failure.
#pragma once

#include <string>

#include "tutti/status.hpp"

namespace tutti::app {

inline constexpr int kExitOk = 0;
inline constexpr int kExitFailed = 1;  ///< exit status of a command that failed or found wrong data
inline constexpr int kExitUsage = 2;   ///< exit status of a command with a bad argument

/// Writes "tutti COMMAND: code: message" as one line to standard error and returns the exit status
/// for the code.
int complain(const std::string& command, const Status& status);

}  // namespace tutti::app
