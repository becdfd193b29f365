// Splits the output of a process into lines and puts a prefix before each line.
#pragma once

#include <string>
#include <string_view>

namespace tutti::launch {

/// Collects bytes and returns whole lines, so that the lines of concurrent ranks are not mixed.
class LinePrefixer {
 public:
  explicit LinePrefixer(std::string prefix) : prefix_(std::move(prefix)) {}
  /// Takes more bytes and returns all lines that are now complete, each with the prefix. A line of
  /// more than 64 KiB is split.
  std::string append(std::string_view bytes);
  /// If the output does not end in a newline, returns the rest of it as a last line.
  std::string finish();

 private:
  std::string prefix_;
  std::string line_;
};

}  // namespace tutti::launch
