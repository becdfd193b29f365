#include "protocol/cutoff.hpp"

#include <algorithm>

namespace tutti::protocol {

const char* to_string(CutoffReason reason) {
  switch (reason) {
    case CutoffReason::none:
      return "none";
    case CutoffReason::silence:
      return "silence";
    case CutoffReason::neighbour_finished:
      return "neighbour finished";
  }
  return "?";
}

void Jitter::observe(Nanoseconds gap) {
  // A gap shorter than the average enters the average with weight 1/8, as in round-trip estimators;
  // a longer gap enters with weight 1/2. So the silence timeout, a multiple of the average, grows
  // quickly and shrinks slowly.
  const std::int64_t sample = gap.count();
  smoothed_ns_ = sample > smoothed_ns_ ? (smoothed_ns_ + sample) / 2
                                       : smoothed_ns_ + (sample - smoothed_ns_) / 8;
}

Cutoff::Cutoff(const Settings& settings, const Jitter& jitter)
    : silence_timeout_(std::clamp(jitter.smoothed() * settings.jitter_multiple,
                                  settings.silence_timeout_floor,
                                  settings.silence_timeout_ceiling)) {}

void Cutoff::arm(Instant now, Nanoseconds expected) {
  armed_ = true;
  earliest_ = now + expected + silence_timeout_;
  last_progress_ = now;
}

Instant Cutoff::deadline() const {
  if (!armed_) return kNever;
  return std::max(earliest_, last_progress_ + silence_timeout_);
}

bool Cutoff::expired(Instant now) {
  if (now < deadline()) return false;
  earliest_ = now + silence_timeout_;
  return true;
}

}  // namespace tutti::protocol
