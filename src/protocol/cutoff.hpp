// The cutoff timer (K4): when to stop waiting for the multicast and fetch what is missing.
//
// It fires no earlier than N/B + alpha after the start, and no earlier than alpha after the last
// progress; alpha is a floor plus a multiple of the measured jitter. It never counts polls, and it
// says why it fired.
#pragma once

#include <cstdint>

#include "tutti/units.hpp"

namespace tutti::protocol {

/// Why the multicast phase was given up.
enum class CutoffReason : std::uint8_t {
  none,
  silence,             ///< the expected time is over and nothing came for alpha
  neighbour_finished,  ///< the right neighbour has everything, so all was sent
};

const char* to_string(CutoffReason reason);

/// Smoothed gap between arrivals, kept from collective to collective of a communicator.
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
    Nanoseconds alpha_floor{2'000'000};
    Nanoseconds alpha_ceiling{50'000'000};
    std::int64_t jitter_multiple = 4;
  };

  Cutoff(const Settings& settings, const Jitter& jitter);

  /// Starts the clock: `expected` is N/B_link.
  void arm(Instant now, Nanoseconds expected);
  bool armed() const { return armed_; }
  void progress(Instant now) { last_progress_ = now; }
  Instant last_progress() const { return last_progress_; }

  Instant deadline() const;
  /// Whether the timer has run out; each firing pushes the next one out by alpha.
  bool expired(Instant now);
  Nanoseconds alpha() const { return alpha_; }

 private:
  Settings settings_;
  Nanoseconds alpha_;
  Instant earliest_{};
  Instant last_progress_{};
  bool armed_ = false;
};

}  // namespace tutti::protocol
