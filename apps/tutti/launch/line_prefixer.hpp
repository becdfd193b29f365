// Cuts the output of a process into lines and puts a prefix before each.
#pragma once

#include <string>
#include <string_view>

namespace tutti::launch {

/// Collects bytes and returns whole lines, so that the lines of concurrent ranks do not interleave.
class LinePrefixer {
 public:
  explicit LinePrefixer(std::string prefix) : prefix_(std::move(prefix)) {}
  /// Appends bytes and returns the lines that are now complete. A line of more than 64 KiB is
  /// split.
  std::string append(std::string_view bytes);
  /// Returns the last line if it lacks its newline, with one.
  std::string finish();

 private:
  std::string prefix_;
  std::string line_;
};

}  // namespace tutti::launch
