// The cutoff timer ([Khalilov24] 3.3), which decides when a rank stops waiting for multicast and
// fetches missing chunks. It expires when the expected transfer time plus the silence timeout have
// passed since the start, but not before the silence timeout has passed since the last arrival.
//
// The silence timeout is a multiple of the measured jitter, bounded by a floor and a ceiling. The
// timer measures time by the clock, not by counting polls.
#pragma once

#include <cstdint>

#include "tutti/units.hpp"

namespace tutti::protocol {

/// The reason why a rank stopped waiting for multicast.
enum class CutoffReason : std::uint8_t {
  none,
  silence,  ///< the expected time is over, and nothing arrived during the silence timeout
  neighbour_finished,  ///< the right neighbour has every chunk, so every chunk was sent
};

const char* to_string(CutoffReason reason);

/// The smoothed gap between arrivals; one object serves all collectives of a communicator.
class Jitter {
 public:
  void observe(Nanoseconds gap);
  Nanoseconds smoothed() const { return Nanoseconds(smoothed_ns_); }

 private:
  std::int64_t smoothed_ns_ = 0;
};

class Cutoff {
 public:
  struct Settings {
    Nanoseconds silence_timeout_floor{2'000'000};
    Nanoseconds silence_timeout_ceiling{50'000'000};
    std::int64_t jitter_multiple = 4;
  };

  Cutoff(const Settings& settings, const Jitter& jitter);

  /// Starts the cutoff timer; `expected` is the transfer time of the data at the link rate.
  void arm(Instant now, Nanoseconds expected);
  bool armed() const { return armed_; }
  void progress(Instant now) { last_progress_ = now; }
  Instant last_progress() const { return last_progress_; }

  Instant deadline() const;
  /// True if the timer has expired. A call that returns true restarts the timer with the silence
  /// timeout.
  bool expired(Instant now);
  Nanoseconds silence_timeout() const { return silence_timeout_; }

 private:
  Nanoseconds silence_timeout_;
  Instant earliest_{};
  Instant last_progress_{};
  bool armed_ = false;
};

}  // namespace tutti::protocol
