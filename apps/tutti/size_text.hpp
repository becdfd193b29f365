// Byte counts as people type them.
#pragma once

#include <cstdint>
#include <string>

#include "tutti/status.hpp"

namespace tutti::app {

/// "1024", "64K", "4M", "1G" (powers of 1024; lower case and a final B are taken, too) as bytes.
Result<std::uint64_t> parse_size(const std::string& text);

/// The shortest of the above that is exact: "64K".
std::string size_text(std::uint64_t bytes);

}  // namespace tutti::app
