// Parsing of numbers in option texts.
#pragma once

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace tutti {

/// Parses a text that consists of one number. Returns nothing if the text has other characters or
/// the number does not fit its type.
template <typename Number>
std::optional<Number> whole_number(std::string_view text) {
  Number value{};
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || rest != end) return std::nullopt;
  return value;
}

}  // namespace tutti
