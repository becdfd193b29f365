#include "device/ip/egress_gate.hpp"

namespace tutti::device::ip {

// No connection stops: it has a few frames in flight or, while data of a higher priority arrives, one
// frame in each interval. Answers to READs may belong to the data that arrives, which lost chunks.
std::optional<rc::Allowance> ConnectionGate::allowance(const rc::Backlog& backlog, Instant now) {
  constexpr Nanoseconds kTrickle{1'000'000};
  if (!backlog.answers && priorities().arrives_above(backlog.priority, now)) {
    if (now - last_trickle_ >= kTrickle) last_trickle_ = now;
    return rc::Allowance{.least_frames = now == last_trickle_ ? 1u : 0u};
  }
  const auto more = allowed_bytes(backlog.priority);
  if (!more) return std::nullopt;
  return rc::Allowance{.more_bytes = *more};
}

}  // namespace tutti::device::ip
