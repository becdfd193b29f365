#include "runtime/progress/background_priority.hpp"

namespace tutti::runtime {

Result<GrantedPriority> BackgroundPriority::start() {
  auto granted = apply_priority(request_.demanded ? request_ : PriorityRequest{});
  if (granted) granted_ = *granted;
  return granted;
}

bool BackgroundPriority::raise_once() {
  raised_ = true;
  if (!request_.nice || request_.demanded) return false;
  const Result<GrantedPriority> granted = apply_priority(request_);
  // The user did not demand a nice value, so a refusal by the kernel is not an error.
  if (!granted) return false;
  granted_ = *granted;
  may_be_realtime_ = granted_.realtime;
  return true;
}

bool BackgroundPriority::enforce_budget(Instant now, bool worked) {
  const bool realtime = budget_.pass(now, worked);
  if (realtime == granted_.realtime) return false;
  set(realtime);
  return !realtime && !granted_.realtime;
}

std::uint64_t BackgroundPriority::counter() const {
  constexpr std::uint64_t kRealtime = 100;
  if (granted_.realtime) return kRealtime;
  return granted_.nice < 0 ? static_cast<std::uint64_t>(-granted_.nice) : 0;
}

/// Turns real-time priority on or off. If the kernel refuses, this thread never asks for real-time
/// priority again.
void BackgroundPriority::set(bool realtime) {
  may_be_realtime_ = set_realtime(granted_.nice, realtime);
  if (may_be_realtime_) granted_.realtime = realtime;
}

}  // namespace tutti::runtime
