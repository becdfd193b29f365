// The output of one process, line by line, each line marked with its rank.
#pragma once

#include <string>
#include <string_view>

namespace tutti::app {

/// Collects bytes and hands out whole lines, so that ranks do not cut each other's lines apart.
class LinePrefixer {
 public:
  explicit LinePrefixer(std::string prefix) : prefix_(std::move(prefix)) {}
  /// Takes bytes as they come; returns the lines that are complete now, each with the prefix. A
  /// line longer than 64 KiB is broken.
  std::string append(std::string_view bytes);
  /// The last line, where it lacks its newline.
  std::string finish();

 private:
  std::string prefix_;
  std::string line_;
};

}  // namespace tutti::app
