// Status and Result: errors as values with context. No exception crosses Tutti's public API.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace tutti {

/// The kind of a failure, for programs to branch on; the message of a Status has the details.
enum class Code {
  ok,
  invalid_argument,    ///< the caller's argument, environment or file cannot be used
  unsupported,         ///< this device or host lacks what was asked for
  resource_exhausted,  ///< memory, descriptors, buffer limits
  timeout,             ///< a deadline passed
  peer_failed,         ///< another rank died, froze, or was cut off
  aborted,             ///< the communicator was aborted or had failed before
  system,              ///< an operating system call failed
  internal,            ///< a broken invariant of Tutti itself
};

/// The name of a code, for messages: "peer_failed".
const char* to_string(Code code);

/// Success, or an error: a code and one sentence that names the thing, the rank and the remedy.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == Code::ok; }
  explicit operator bool() const { return ok(); }
  Code code() const { return code_; }
  const std::string& message() const { return message_; }
  /// The name of the code and the message: "peer_failed: rank 2 ..."; "ok" for success.
  std::string to_string() const;

 private:
  Code code_ = Code::ok;
  std::string message_;
};

/// A value, or the Status that says why there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}           // NOLINT: implicit by design
  Result(Status failure) : state_(std::move(failure)) {}  // NOLINT: implicit by design

  bool ok() const { return std::holds_alternative<T>(state_); }
  explicit operator bool() const { return ok(); }
  T& value() { return std::get<T>(state_); }
  const T& value() const { return std::get<T>(state_); }
  T& operator*() { return value(); }
  const T& operator*() const { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  /// The error; an ok Status if there is a value.
  Status status() const { return ok() ? Status() : std::get<Status>(state_); }

 private:
  std::variant<T, Status> state_;
};

}  // namespace tutti
