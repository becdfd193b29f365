// A number that a text holds.
#pragma once

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace tutti {

/// The value of `text`; nothing if any part of it is no number, or the value does not fit.
template <typename Number>
std::optional<Number> whole_number(std::string_view text) {
  Number value{};
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || rest != end) return std::nullopt;
  return value;
}

}  // namespace tutti
