// Options of commands that go through sizes.
#pragma once

#include <CLI/App.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "tutti/status.hpp"

namespace tutti::app {

/// Adds an option that takes a size as people type it.
void add_size(CLI::App& command, const std::string& names, std::uint64_t& bytes,
              const std::string& text);

struct SizeRange {
  std::uint64_t min_bytes = 1024;
  std::uint64_t max_bytes = std::uint64_t{4} << 20;
  std::uint64_t step_factor = 4;
  std::uint64_t step_bytes = 0;  ///< not 0: added, instead of multiplying by the factor

  /// Whether there is any; the error (invalid_argument) names the options.
  Status check() const;
  /// From the smallest up.
  std::vector<std::uint64_t> sizes() const;
};

/// Adds --minbytes, --maxbytes, --stepfactor and --stepbytes.
void add_size_range(CLI::App& command, SizeRange& range);

}  // namespace tutti::app
