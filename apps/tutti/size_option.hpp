// The options of commands that measure a range of sizes.
#pragma once

#include <CLI/App.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "tutti/status.hpp"

namespace tutti::app {

/// Adds an option whose value is a size such as 64K.
void add_size(CLI::App& command, const std::string& names, std::uint64_t& bytes,
              const std::string& text);

struct SizeRange {
  std::uint64_t min_bytes = 1024;
  std::uint64_t max_bytes = std::uint64_t{4} << 20;
  std::uint64_t step_factor = 4;
  std::uint64_t step_bytes = 0;  ///< bytes from one size to the next; 0: multiply by the factor

  /// Ok if the range contains a size. The error (invalid_argument) names the options.
  Status check() const;
  /// The sizes of the range, ascending.
  std::vector<std::uint64_t> sizes() const;
};

/// Adds the options --minbytes, --maxbytes, --stepfactor and --stepbytes.
void add_size_range(CLI::App& command, SizeRange& range);

}  // namespace tutti::app
