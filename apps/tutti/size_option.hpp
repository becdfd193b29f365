// Command-line options for the range of sizes that a command measures.
#pragma once

#include <CLI/App.hpp>
#include <cstdint>
#include <optional>
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
  /// Difference between adjacent sizes in bytes; 0: each size is the previous one times the factor.
  std::uint64_t step_bytes = 0;

  /// Ok if the range has at least one size and, with `element`, each size is a whole number of
  /// elements. Otherwise the error (invalid_argument) names the option.
  Status check(std::optional<DataType> element) const;
  /// The sizes of the range in bytes, in ascending order.
  std::vector<std::uint64_t> sizes(std::uint64_t element_bytes = 1) const;
};

/// Adds the options --minbytes, --maxbytes, --stepfactor and --stepbytes.
void add_size_range(CLI::App& command, SizeRange& range);

}  // namespace tutti::app
