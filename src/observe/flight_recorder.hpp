// What a rank was doing: a ring of its last collectives with state and progress, always on, dumped
// on an error, a signal, or request.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "observe/trace_log.hpp"
#include "tutti/units.hpp"

namespace tutti::observe {

enum class Phase : std::uint8_t { queued, ready, data, handshake, done, failed };

const char* to_string(Phase phase);

/// One collective of one rank.
struct FlightRecord {
  std::uint32_t epoch = 0;
  const char* operation = "";  ///< a literal: "allgather"
  const char* algorithm = "";
  Rank root = kNoRank;
  std::uint64_t bytes = 0;  ///< of the receive buffer
  Phase phase = Phase::queued;
  Instant started{};
  std::array<Instant, 6> entered{};  ///< when each phase began; 0: never
  std::uint64_t chunks_total = 0;
  std::uint64_t chunks_present = 0;
  Instant traced_since{};        ///< by the trace's clock; where it is traced
  Instant phase_traced_since{};  ///< likewise
};

class FlightRecorder {
 public:
  /// From now on collectives and their phases are traced, too; null: no more. It outlives this.
  void trace_to(CommunicatorTrace* trace) { trace_ = trace; }

  /// Opens a record; the oldest makes room.
  FlightRecord& begin(std::uint32_t epoch, const char* operation, const char* algorithm, Rank root,
                      std::uint64_t bytes, Instant now);
  /// Notes that a collective entered a phase. Nothing where its record was overwritten.
  void enter(std::uint32_t epoch, Phase phase, Instant now);
  void progress(std::uint32_t epoch, std::uint64_t present, std::uint64_t total);

  /// The records as JSON, oldest first: {"rank": r, "size": p, "collectives": [...]}.
  std::string to_json(Rank rank, std::uint32_t size, Instant now) const;

 private:
  static constexpr std::size_t kRecords = 256;

  FlightRecord* find(std::uint32_t epoch);
  void trace(FlightRecord& record, Phase next);

  std::array<FlightRecord, kRecords> ring_{};
  std::size_t count_ = 0;
  CommunicatorTrace* trace_ = nullptr;
};

}  // namespace tutti::observe
