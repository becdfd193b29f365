#include "size_text.hpp"

#include <cctype>
#include <charconv>

#include "base/error.hpp"

namespace tutti::app {
namespace {

constexpr std::string_view kUnits = "KMGT";

}  // namespace

Result<std::uint64_t> parse_size(const std::string& text) {
  std::uint64_t value = 0;
  const char* const end = text.data() + text.size();
  auto [at, error] = std::from_chars(text.data(), end, value);
  unsigned shift = 0;
  if (error == std::errc{} && at != end) {
    const auto unit = kUnits.find(static_cast<char>(std::toupper(static_cast<unsigned char>(*at))));
    if (unit != kUnits.npos) {
      shift = 10 * (static_cast<unsigned>(unit) + 1);
      ++at;
    }
    if (at != end && (*at == 'B' || *at == 'b')) ++at;
  }
  if (error != std::errc{} || at != end || value > (UINT64_MAX >> shift)) {
    return failure(Code::invalid_argument,
                   "'{}' is not a size: use a number of bytes such as 65536, 64K or 4M", text);
  }
  return value << shift;
}

Result<std::uint64_t> parse_size_of(const char* option, const std::string& text) {
  auto size = parse_size(text);
  if (size) return size;
  return failure(Code::invalid_argument, "the value of {} is not valid: {}", option,
                 size.status().message());
}

std::string size_text(std::uint64_t bytes) {
  std::string unit;
  for (std::size_t i = 0; i < kUnits.size() && bytes != 0 && bytes % 1024 == 0; ++i) {
    bytes /= 1024;
    unit = kUnits[i];
  }
  return std::to_string(bytes) + unit;
}

}  // namespace tutti::app
