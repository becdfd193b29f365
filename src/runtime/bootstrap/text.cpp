#include "runtime/bootstrap/text.hpp"

#include <fmt/format.h>

#include <charconv>
#include <vector>

#include "base/hex.hpp"
#include "crypto/secret.hpp"

namespace tutti::runtime {
namespace {

constexpr std::size_t kMaxRunsShown = 16;

}  // namespace

std::string describe_ranks(std::span<const std::uint32_t> ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  std::size_t runs = 0;
  for (std::size_t first = 0; first < ranks.size();) {
    if (runs == kMaxRunsShown) return text + fmt::format(" and {} more", ranks.size() - first);
    std::size_t last = first;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    if (runs++ > 0) text += ", ";
    text += fmt::format("{}", ranks[first]);
    if (last > first) text += fmt::format("{}{}", last - first == 1 ? ", " : "-", ranks[last]);
    first = last + 1;
  }
  return text;
}

std::vector<Rank> to_ranks(std::span<const std::uint32_t> ranks) {
  std::vector<Rank> typed;
  typed.reserve(ranks.size());
  for (const std::uint32_t rank : ranks) typed.push_back(rank_of(rank));
  return typed;
}

std::string describe_duration(Nanoseconds duration) {
  const double milliseconds = static_cast<double>(duration.count()) / 1e6;
  if (milliseconds < 1000) return fmt::format("{:.4g} ms", milliseconds);
  return fmt::format("{:.6g} s", milliseconds / 1000);
}

std::string printable(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c >= ' ' && c <= '~') {
      out += c;
    } else {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
  }
  return out;
}

std::optional<std::uint64_t> parse_number(std::string_view text, std::uint64_t max) {
  std::uint64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (text.empty() || error != std::errc() || stop != end || value > max) return std::nullopt;
  return value;
}

Result<std::string> random_hex(std::size_t count) {
  std::vector<std::byte> bytes(count);
  if (Status status = crypto::fill_random(bytes); !status) return status;
  return to_hex(bytes);
}

}  // namespace tutti::runtime
