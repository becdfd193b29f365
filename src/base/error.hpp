// Functions that make a Status: from formatted text, and from errno after a failed system call.
#pragma once

#include <fmt/format.h>

#include <cerrno>
#include <system_error>

#include "tutti/status.hpp"

namespace tutti {

/// An error whose message is formatted as by fmt::format.
template <typename... Args>
Status failure(Code code, fmt::format_string<Args...> format, Args&&... args) {
  return Status(code, fmt::format(format, std::forward<Args>(args)...));
}

/// The error of a failed system call. Its text is the formatted description of the action, then the
/// text of errno.
template <typename... Args>
Status system_failure(int error_number, fmt::format_string<Args...> format, Args&&... args) {
  return Status(Code::system, fmt::format(format, std::forward<Args>(args)...) + ": " +
                                  std::generic_category().message(error_number));
}

}  // namespace tutti
