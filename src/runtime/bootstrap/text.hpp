// Text helpers of the bootstraps: format ranks and durations for error texts, parse numbers, escape
// foreign text, and make random tokens.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/status.hpp"
#include "tutti/units.hpp"

namespace tutti::runtime {

/// Ranks as text, such as "rank 3" or "ranks 3, 5-7"; `ranks` must ascend. A very long list ends in
/// "and N more".
std::string describe_ranks(std::span<const std::uint32_t> ranks);

/// Converts plain numbers to values of type Rank, for Status::ranks.
std::vector<Rank> to_ranks(std::span<const std::uint32_t> ranks);

/// A duration as text in seconds or milliseconds, such as "1.5 s".
std::string describe_duration(Nanoseconds duration);

/// Makes a text from another process safe for a log: bytes other than printable ASCII become
/// "\xNN".
std::string printable(std::string_view text);

/// Parses a decimal number from 0 to `max`. Returns nothing if the text has a sign, blanks or any
/// other character.
std::optional<std::uint64_t> parse_number(std::string_view text, std::uint64_t max);

/// `count` random bytes, in lower-case hexadecimal.
Result<std::string> random_hex(std::size_t count);

}  // namespace tutti::runtime
