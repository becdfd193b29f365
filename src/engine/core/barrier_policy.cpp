#include "engine/core/barrier_policy.hpp"

#include <algorithm>

namespace tutti::engine {

namespace {

// A multicast counts for at least this many bytes of the credit window, because a datagram occupies
// more of a receive queue than its payload.
constexpr std::uint64_t kMinUnconfirmedBytes = 2048;

}  // namespace

bool BarrierPolicy::decide(const Operation& operation, bool votes) {
  const std::uint64_t stored = operation.late_store_bytes();
  const std::uint64_t bytes = stored == 0 ? 0 : std::max(stored, kMinUnconfirmedBytes);
  const std::uint64_t unexpected = operation.unexpected_bytes();
  const bool barrier =
      (bytes > 0 &&
       (votes || always_ || lossless_ || unconfirmed_bytes_ + bytes > window_bytes_)) ||
      (unexpected > 0 &&
       (always_ || unconfirmed_unexpected_bytes_ + unexpected > kMaxUnexpectedBytes));
  const bool confirmed = barrier || operation.confirms_earlier();
  unconfirmed_bytes_ = confirmed ? bytes : unconfirmed_bytes_ + bytes;
  unconfirmed_unexpected_bytes_ =
      confirmed ? unexpected : unconfirmed_unexpected_bytes_ + unexpected;
  return barrier;
}

}  // namespace tutti::engine
