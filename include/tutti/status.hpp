// Status and Result: errors as values with context. No exception crosses Tutti's public API, except
// std::bad_variant_access if a program reads the value of a failed Result.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "tutti/units.hpp"

namespace tutti {

/// The kind of a failure, on which a program can branch. The message of a Status gives the details.
enum class Code {
  ok,
  invalid_argument,    ///< unusable argument, environment variable or file, given by the caller
  unsupported,         ///< feature that this device or host lacks
  resource_exhausted,  ///< lack of memory or file descriptors, or a limit that is reached
  timeout,             ///< operation that did not end within its time limit
  peer_failed,         ///< loss of another rank, which died, hung or became unreachable
  aborted,             ///< use of a communicator that was aborted
  system,              ///< failure of a system call
  internal,            ///< broken invariant inside Tutti, which is a bug of Tutti
};

/// The name of a code as messages show it, such as "peer_failed"; static text.
const char* to_string(Code code);

/// Success, or an error with a code, a message and the ranks at fault. The message names what
/// failed, at which rank, and the remedy.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message) : code_(code), message_(std::move(message)) {}
  Status(Code code, std::string message, std::vector<Rank> ranks)
      : code_(code), message_(std::move(message)), ranks_(std::move(ranks)) {}

  bool ok() const { return code_ == Code::ok; }
  explicit operator bool() const { return ok(); }
  Code code() const { return code_; }
  const std::string& message() const { return message_; }
  /// The ranks at fault, such as a lost rank, both ends of a path that loses packets, or the rank
  /// that aborted; empty if no rank is known to be at fault. After the timeout of a wait these are
  /// the ranks whose data is missing at this rank.
  std::span<const Rank> ranks() const { return ranks_; }
  /// The name of the code and the message, such as "peer_failed: rank 2 ..."; "ok" for success.
  std::string to_string() const;

 private:
  Code code_ = Code::ok;
  std::string message_;
  std::vector<Rank> ranks_;
};

/// A value, or the error Status if there is no value. Reading the value of a failed Result, also by
/// * or ->, throws std::bad_variant_access.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}           // NOLINT: implicit conversion wanted
  Result(Status failure) : state_(std::move(failure)) {}  // NOLINT: implicit conversion wanted

  bool ok() const { return std::holds_alternative<T>(state_); }
  explicit operator bool() const { return ok(); }
  T& value() { return std::get<T>(state_); }
  const T& value() const { return std::get<T>(state_); }
  T& operator*() { return value(); }
  const T& operator*() const { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  /// The error if there is no value, otherwise an ok Status.
  Status status() const { return ok() ? Status() : std::get<Status>(state_); }

 private:
  std::variant<T, Status> state_;
};

}  // namespace tutti
