// Making a Status: formatted text, and errno where a system call failed.
#pragma once

#include <fmt/format.h>

#include <cerrno>
#include <system_error>

#include "tutti/status.hpp"

namespace tutti {

/// A failure whose message is formatted as fmt::format does.
template <typename... Args>
Status failure(Code code, fmt::format_string<Args...> format, Args&&... args) {
  return Status(code, fmt::format(format, std::forward<Args>(args)...));
}

/// A failed system call: what was tried, then errno's own text.
template <typename... Args>
Status system_failure(int error_number, fmt::format_string<Args...> format, Args&&... args) {
  return Status(Code::system, fmt::format(format, std::forward<Args>(args)...) + ": " +
                                  std::generic_category().message(error_number));
}

}  // namespace tutti
