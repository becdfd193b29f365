// When a waiting thread lets others run: how long it works, how long it polls without work, and
// whether a start yields. With more ranks than cores a spinning rank holds up the rank it waits for.
#pragma once

#include <algorithm>

#include "runtime/progress/engine_poller.hpp"
#include "runtime/progress/overlap_predictor.hpp"
#include "tutti/units.hpp"

namespace tutti::runtime {

/// Core time that the owner of the engine takes at once.
struct CoreTimes {
  Nanoseconds spin{};                            ///< polling an idle network before it blocks
  Nanoseconds yield_after = Nanoseconds::max();  ///< work before it yields, once it has slept
  /// Work before the first yield. At the start of a collective every rank of a core has something
  /// to send, and the slowest start delays all ranks. 0 where operations ask to begin together.
  Nanoseconds first_yield_after = Nanoseconds::max();
  double realtime_share = 0;  ///< share of the time, 0 to 1, at real-time priority
};

/// Thread-safe, except where marked.
class YieldPolicy {
 public:
  explicit YieldPolicy(const CoreTimes& times) : times_(times) {}

  /// Work of a waiting thread before it yields. By the owner of the engine.
  Nanoseconds yield_after(bool slept, const EnginePoller& engine) const {
    if (slept) return times_.yield_after;
    return engine.begins_together() ? Nanoseconds(0) : times_.first_yield_after;
  }
  /// Polling without work before a waiting thread blocks. By the owner of the engine.
  Nanoseconds spin(bool slept, const EnginePoller& engine) const {
    if (engine.only_slot_exchanges()) return kInlineSpin;
    return slept ? std::min(times_.spin, kSpinAfterSleep) : times_.spin;
  }
  /// A collective has begun; returns whether to yield: the application is about to compute, and
  /// the other ranks of this core begin before it does.
  bool yields_after_start() { return predictor_.begun(); }
  void on_wait() { predictor_.waits(); }

  /// Polling for the peers of a slot exchange, with a yield after each poll.
  static constexpr Nanoseconds kInlineSpin{200'000};

 private:
  /// A thread that has slept waits for a slow rank: more spinning may take that rank's core.
  static constexpr Nanoseconds kSpinAfterSleep{5'000};

  CoreTimes times_;
  OverlapPredictor predictor_;
};

}  // namespace tutti::runtime
