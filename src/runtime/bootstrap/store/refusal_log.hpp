// The log of refused connections at a door (a TCP port at which Tutti listens). It counts all of
// them but writes only a few lines a second, so that an attacker cannot fill the log.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "runtime/bootstrap/store/socket.hpp"
#include "tutti/status.hpp"

namespace tutti::runtime {

/// Only one thread at a time may call `refuse`.
class RefusalLog {
 public:
  static constexpr std::uint32_t kMaxLinesPerSecond = 10;

  /// Passes each line to `write`. Every line begins with `door`, the name of the port.
  RefusalLog(std::string door, std::function<void(const std::string&)> write)
      : door_(std::move(door)), write_(std::move(write)) {}

  /// Counts a refused connection and logs it. Bytes of the reason `why` that are not printable
  /// ASCII are escaped.
  void refuse(const std::string& peer, const std::string& why, Deadline now);
  /// Number of refused connections. Any thread may call this function at any time.
  std::uint64_t refused() const { return refused_.load(std::memory_order_relaxed); }

 private:
  std::string door_;
  std::function<void(const std::string&)> write_;
  Deadline second_begin_ = Deadline::min();
  std::uint32_t lines_ = 0;  ///< number of lines written in the present second
  std::uint64_t suppressed_ = 0;
  std::atomic<std::uint64_t> refused_{0};
};

}  // namespace tutti::runtime
