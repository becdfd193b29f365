#include "runtime/bootstrap/store/refusal_log.hpp"

#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "runtime/bootstrap/text.hpp"

namespace tutti::runtime {

void RefusalLog::refuse(const std::string& peer, const std::string& why, Deadline now) {
  refused_.fetch_add(1, std::memory_order_relaxed);
  if (second_begin_ == Deadline::min() || now - second_begin_ >= std::chrono::seconds(1)) {
    second_begin_ = now;
    lines_ = 0;
  }
  if (lines_ == kMaxLinesPerSecond) {
    ++suppressed_;
    return;
  }
  ++lines_;
  const std::uint64_t suppressed = std::exchange(suppressed_, 0);
  const std::string more =
      suppressed == 0 ? "" : fmt::format(" ({} refusals before it were not logged)", suppressed);
  if (write_) {
    write_(fmt::format("{}: the connection from {} is refused: {}{}", door_, peer, printable(why),
                       more));
  }
}

}  // namespace tutti::runtime
