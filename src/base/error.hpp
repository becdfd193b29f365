// Functions that make a Status: from formatted text, and from errno after a failed system call.
#pragma once

#include <fmt/format.h>

#include <cerrno>
#include <system_error>
#include <utility>
#include <vector>

#include "tutti/status.hpp"
#include "tutti/units.hpp"

namespace tutti {

/// An error whose message is formatted as by fmt::format.
template <typename... Args>
Status failure(Code code, fmt::format_string<Args...> format, Args&&... args) {
  return Status(code, fmt::format(format, std::forward<Args>(args)...));
}

/// An error that names `ranks` as the ranks at fault.
template <typename... Args>
Status failure_of(std::vector<Rank> ranks, Code code, fmt::format_string<Args...> format,
                  Args&&... args) {
  return Status(code, fmt::format(format, std::forward<Args>(args)...), std::move(ranks));
}

/// An error with a new message, and with the code and the ranks at fault from `cause`.
template <typename... Args>
Status failure_from(const Status& cause, fmt::format_string<Args...> format, Args&&... args) {
  return Status(cause.code(), fmt::format(format, std::forward<Args>(args)...),
                {cause.ranks().begin(), cause.ranks().end()});
}

/// The error of a failed system call. The message is the formatted text, followed by the system's
/// text for `error_number`.
template <typename... Args>
Status system_failure(int error_number, fmt::format_string<Args...> format, Args&&... args) {
  return Status(Code::system, fmt::format(format, std::forward<Args>(args)...) + ": " +
                                  std::generic_category().message(error_number));
}

}  // namespace tutti
