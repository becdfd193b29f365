// Byte counts as text.
#pragma once

#include <cstdint>
#include <string>

#include "tutti/status.hpp"

namespace tutti::app {

/// Parses "1024", "64K", "4M" or "1G" (powers of 1024; lower case and a final B are accepted).
Result<std::uint64_t> parse_size(const std::string& text);

/// Formats a size exactly and as short as possible: "64K".
std::string size_text(std::uint64_t bytes);

}  // namespace tutti::app
