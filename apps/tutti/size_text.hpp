// Parses and formats byte counts.
#pragma once

#include <cstdint>
#include <string>

#include "tutti/status.hpp"

namespace tutti::app {

/// Parses "1024", "64K", "4M" or "1G" with powers of 1024. Lower case and a final B are accepted.
Result<std::uint64_t> parse_size(const std::string& text);

/// Formats a size exactly and as short as possible, such as "64K".
std::string size_text(std::uint64_t bytes);

}  // namespace tutti::app
