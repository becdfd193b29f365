// The clock exchange: compares every rank's clock with the clock of rank 0, for traces. Each rank
// requests the time of that clock a few times, in a collective that runs once when a traced
// communicator is created.
//
// All ranks ask at the same time, so that the exchange takes a few round trips for any number of
// ranks. A busy rank 0 answers late, which makes the bounds wider and the reported error larger.
// Clock drift after the exchange is not corrected.
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

/// The result of a clock exchange: a rank's knowledge of rank 0's clock.
struct ClockComparison {
  protocol::ClockBounds bounds;
  std::uint64_t identity = 0;  ///< identity that rank 0 sent for its clock; 0: unknown
  Instant origin{};            ///< start of the exchange by rank 0's clock; the same on all ranks
};

class ClockExchange final : public Operation {
 public:
  static constexpr std::uint32_t kExchanges = 16;

  /// `clock` is read at each send and receive, because a message may have arrived after the instant
  /// that is passed to `poll`. `identity` identifies the clock: ranks with equal identities read
  /// the same clock; 0: unknown. `outcome` receives the result and must outlive the operation.
  ClockExchange(observe::TraceLog::Clock clock, std::uint64_t identity, ClockComparison& outcome);

  std::uint64_t unexpected_bytes() const override { return 0; }
  bool confirms_earlier() const override { return false; }
  void on_data(Instant now, Rank from, std::uint32_t slot,
               std::span<const std::byte> payload) override;
  bool poll(Instant now) override;
  bool locally_complete() const override { return done(); }
  bool done() const override { return over_; }
  observe::Phase phase() const override { return observe::Phase::data; }
  Missing missing() const override;

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
  std::uint32_t asked_ = 0;  ///< number of clock requests of this rank that rank 0 has answered
  Instant asked_at_{};
  std::vector<std::uint32_t> answered_;  ///< at rank 0, by rank: number of clock requests answered
  std::uint64_t unanswered_ = 0;         ///< at rank 0: number of clock requests not answered yet
  bool sent_ = false;                    ///< true: a message was sent since the last poll
  bool over_ = false;
};

}  // namespace tutti::engine
