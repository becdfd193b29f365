#include "device/ip/egress_gate.hpp"

namespace tutti::device::ip {

// Connections never stop completely: while data of a higher priority arrives, a connection may send
// one frame in each interval kTrickle. Answers to READs are exempt from this limit, because they
// may carry lost chunks of the data with the higher priority.
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
