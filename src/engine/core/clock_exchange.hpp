// Compares every rank's clock with rank 0's, for traces: each rank asks rank 0 a few times what its
// clock shows. Once, when a traced communicator is created; collective.
//
// All ranks ask at once, so that it takes a few round trips whatever their number; a busy rank 0
// answers late, which widens the bounds and is said in their error. On a quiet Ethernet that is
// some ten microseconds. The clocks' drift afterwards, some microseconds a second where nothing
// disciplines them, is not in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/core/operation.hpp"
#include "observe/trace_log.hpp"
#include "protocol/clock_bounds.hpp"

namespace tutti::engine {

/// What a rank knows of rank 0's clock.
struct ClockComparison {
  protocol::ClockBounds bounds;
  std::uint64_t identity = 0;  ///< of rank 0's clock, as rank 0 gave it; 0: not known
  Instant origin{};            ///< when rank 0 began, by its clock: the same on all ranks
};

class ClockExchange final : public Operation {
 public:
  static constexpr std::uint32_t kExchanges = 16;

  /// `clock` is read whenever something is sent or has come: an instant of the round that found it
  /// may be older than what it found. `identity`: equal for ranks that read the same clock; 0: not
  /// known. `outcome` is written before the end, and outlives it.
  ClockExchange(observe::TraceLog::Clock clock, std::uint64_t identity, ClockComparison& outcome);

  std::uint64_t unexpected_bytes() const override { return 0; }
  bool confirms_earlier() const override { return false; }
  void on_data(Instant now, Rank from, std::uint32_t slot,
               std::span<const std::byte> payload) override;
  bool poll(Instant now) override;
  bool locally_complete() const override { return done(); }
  bool done() const override { return over_; }
  observe::Phase phase() const override { return observe::Phase::data; }
  std::string missing() const override;

 protected:
  void start(Instant now, bool barrier) override;

 private:
  struct Answer {
    Instant at{};
    Instant origin{};
    std::uint64_t identity = 0;
  };

  bool answers() const;
  void ask(Instant now);
  void answer(Instant now, Rank from, std::uint32_t slot);
  void take(Instant now, std::uint32_t slot, std::span<const std::byte> payload);

  observe::TraceLog::Clock clock_;
  std::uint64_t identity_;
  ClockComparison& outcome_;
  std::uint32_t asked_ = 0;  ///< questions whose answers are here
  Instant asked_at_{};
  std::vector<std::uint32_t> answered_;  ///< by rank, at rank 0
  std::uint64_t unanswered_ = 0;         ///< at rank 0
  bool sent_ = false;                    ///< since the last poll
  bool over_ = false;
};

}  // namespace tutti::engine
