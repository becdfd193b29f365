// The flight record of a rank: a ring of its last collectives with state and progress. The ring is
// always kept, and written out after an error, a signal or a request.
#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>

#include "observe/trace_log.hpp"
#include "tutti/units.hpp"

namespace tutti::observe {

enum class Phase : std::uint8_t { queued, ready, data, handshake, done, failed };

const char* to_string(Phase phase);

/// One collective of one rank.
struct FlightRecord {
  std::uint32_t epoch = 0;
  const char* operation = "";  ///< name of the collective, a string literal such as "allgather"
  const char* algorithm = "";
  Rank root = kNoRank;
  std::uint64_t bytes = 0;  ///< size of the receive buffer in bytes
  Phase phase = Phase::queued;
  Instant started{};
  std::array<Instant, 6> entered{};  ///< start of each phase, by Phase; 0: never entered
  std::uint64_t chunks_total = 0;
  std::uint64_t chunks_present = 0;
  Instant traced_since{};        ///< start of the collective by the trace's clock; 0: not traced
  Instant phase_traced_since{};  ///< start of the present phase by the trace's clock; 0: not traced
};

class FlightRecorder {
 public:
  /// Adds collectives and their phases to `trace` from now on; null stops this. `trace` must
  /// outlive the recorder.
  void trace_to(CommunicatorTrace* trace) { trace_ = trace; }

  /// Begins the record of a collective. If the ring is full, the record replaces the oldest one.
  FlightRecord& begin(std::uint32_t epoch, const char* operation, const char* algorithm, Rank root,
                      std::uint64_t bytes, Instant now);
  /// Records that a collective entered a phase. Has no effect if the collective's record was
  /// replaced by a newer one.
  void enter(std::uint32_t epoch, Phase phase, Instant now);
  void progress(std::uint32_t epoch, std::uint64_t present, std::uint64_t total);

  /// The records as JSON, oldest first: {"rank": r, "size": p, "collectives": [...]}.
  nlohmann::json to_json(Rank rank, std::uint32_t size, Instant now) const;

 private:
  static constexpr std::size_t kRecords = 256;

  FlightRecord* find(std::uint32_t epoch);
  void trace(FlightRecord& record, Phase next);

  std::array<FlightRecord, kRecords> ring_{};
  std::size_t count_ = 0;
  CommunicatorTrace* trace_ = nullptr;
};

}  // namespace tutti::observe
