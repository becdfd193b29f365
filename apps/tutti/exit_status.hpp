// The exit statuses of the commands and the message for a failure.
#pragma once

#include <string>

#include "tutti/status.hpp"

namespace tutti::app {

inline constexpr int kExitOk = 0;
inline constexpr int kExitFailed = 1;  ///< exit status after a failed operation or wrong data
inline constexpr int kExitUsage = 2;   ///< exit status after a bad argument

/// Writes "tutti COMMAND: code: message" as one line to standard error and returns the exit status
/// for the code.
int complain(const std::string& command, const Status& status);

}  // namespace tutti::app
