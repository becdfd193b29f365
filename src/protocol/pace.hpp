// The pace of a sender: the earliest time of its next batch. With a pace, all senders of an
// Allgather can send at the same time, each at its share of the link rate. If the ranks took turns,
// the downlink of the sending rank would idle.
#pragma once

#include <algorithm>
#include <cstdint>

#include "tutti/units.hpp"

namespace tutti::protocol {

class Pace {
 public:
  /// A sender without a rate limit.
  Pace() = default;
  /// Limits the sender to `bytes_per_second` > 0; after a delay it may catch up by at most
  /// `burst_bytes`.
  Pace(Instant now, std::uint64_t bytes_per_second, std::uint64_t burst_bytes)
      : rate_(static_cast<double>(bytes_per_second)), catch_up_(time_of(burst_bytes)), next_(now) {}

  bool limited() const { return rate_ > 0; }
  bool may_send(Instant now) const { return !limited() || now >= next_; }
  void sent(Instant now, std::uint64_t bytes) {
    if (limited()) next_ = std::max(next_, now - catch_up_) + time_of(bytes);
  }
  Instant next() const { return next_; }

 private:
  Nanoseconds time_of(std::uint64_t bytes) const {
    return Nanoseconds(static_cast<std::int64_t>(static_cast<double>(bytes) * 1e9 / rate_));
  }

  double rate_ = 0;
  Nanoseconds catch_up_{};
  Instant next_{};
};

}  // namespace tutti::protocol
