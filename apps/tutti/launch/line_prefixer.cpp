#include "launch/line_prefixer.hpp"

#include <algorithm>
#include <utility>

namespace tutti::launch {
namespace {

constexpr std::size_t kMaxLineBytes = 65536;

}  // namespace

std::string LinePrefixer::append(std::string_view bytes) {
  std::string lines;
  while (!bytes.empty()) {
    const std::size_t newline = bytes.find('\n');
    const std::size_t end = newline == bytes.npos ? bytes.size() : newline;
    const std::size_t taken = std::min(end, kMaxLineBytes - line_.size());
    line_ += bytes.substr(0, taken);
    bytes.remove_prefix(taken);
    const bool ended = taken == end && newline != bytes.npos;
    if (ended) bytes.remove_prefix(1);
    if (ended || line_.size() == kMaxLineBytes) {
      lines += prefix_ + line_ + "\n";
      line_.clear();
    }
  }
  return lines;
}

std::string LinePrefixer::finish() {
  if (line_.empty()) return {};
  return prefix_ + std::exchange(line_, {}) + "\n";
}

}  // namespace tutti::launch
