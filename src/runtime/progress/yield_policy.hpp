// The yield policy decides when a waiting thread lets others run: how long it works, how long it
// polls without work, and whether a start yields. With more ranks than cores a spinning rank delays
// the rank for which it waits.
#pragma once

#include <algorithm>

#include "runtime/progress/engine_poller.hpp"
#include "runtime/progress/overlap_predictor.hpp"
#include "tutti/units.hpp"

namespace tutti::runtime {

/// Times for which the owner of the engine keeps its core.
struct CoreTimes {
  /// Time of polling an idle network before the thread blocks.
  Nanoseconds spin{};
  /// Time of work before the thread yields, once it has slept.
  Nanoseconds yield_after = Nanoseconds::max();
  /// Time of work before the first yield. At the start of a collective every rank of a core has
  /// something to send, and the slowest start delays all ranks. Taken as 0 if operations ask to
  /// begin together.
  Nanoseconds first_yield_after = Nanoseconds::max();
  /// Share of the time, 0 to 1, that may be spent at real-time priority.
  double realtime_share = 0;
};

/// The yield policy of one engine. Thread-safe, except for functions marked "owner of the engine".
class YieldPolicy {
 public:
  explicit YieldPolicy(const CoreTimes& times) : times_(times) {}

  /// Time of work after which a waiting thread yields. Owner of the engine only.
  Nanoseconds yield_after(bool slept, const EnginePoller& engine) const {
    if (slept) return times_.yield_after;
    return engine.begins_together() ? Nanoseconds(0) : times_.first_yield_after;
  }
  /// Time of polling without work after which a waiting thread blocks. Owner of the engine only.
  Nanoseconds spin(bool slept, const EnginePoller& engine) const {
    if (engine.only_slot_exchanges()) return kInlineSpin;
    return slept ? std::min(times_.spin, kSpinAfterSleep) : times_.spin;
  }
  /// Notes that a collective has begun. Returns true if the caller should yield: the application is
  /// about to compute, and the other ranks of this core should begin before it does.
  bool yields_after_start() { return predictor_.begun(); }
  void on_wait() { predictor_.waits(); }

  /// Time of polling for the peers of a slot exchange, with a yield after each poll.
  static constexpr Nanoseconds kInlineSpin{200'000};

 private:
  /// Spinning time of a thread that has slept: it waits for a slow rank, whose core more spinning
  /// might take.
  static constexpr Nanoseconds kSpinAfterSleep{5'000};

  CoreTimes times_;
  OverlapPredictor predictor_;
};

}  // namespace tutti::runtime
