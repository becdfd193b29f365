// What the commands return, and how they say why.
#pragma once

#include <string>

#include "tutti/status.hpp"

namespace tutti::app {

inline constexpr int kExitOk = 0;
inline constexpr int kExitFailed = 1;  ///< an operation failed, or its data were wrong
inline constexpr int kExitUsage = 2;   ///< an argument that cannot be used

/// Writes "tutti COMMAND: code: message" to standard error, on one line, and returns the exit
/// status that fits the code.
int complain(const std::string& command, const Status& status);

}  // namespace tutti::app
