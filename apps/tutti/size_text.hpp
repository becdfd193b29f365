// Parses and formats byte counts.
#pragma once

#include <cstdint>
#include <string>

#include "tutti/status.hpp"

namespace tutti::app {

/// Parses a number of bytes such as "1024", "64K", "4M" or "1G"; the units are powers of 1024.
/// Accepts lower case and a final B.
Result<std::uint64_t> parse_size(const std::string& text);
/// Parses the value of an option; the error names the option.
Result<std::uint64_t> parse_size_of(const char* option, const std::string& text);

/// The shortest text that parse_size() turns into exactly this size, such as "64K".
std::string size_text(std::uint64_t bytes);

}  // namespace tutti::app
