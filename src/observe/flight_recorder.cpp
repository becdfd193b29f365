#include "observe/flight_recorder.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace tutti::observe {

const char* to_string(Phase phase) {
  static constexpr const char* kNames[] = {"queued",    "ready", "data",
                                           "handshake", "done",  "failed"};
  return kNames[static_cast<std::size_t>(phase)];
}

FlightRecord& FlightRecorder::begin(std::uint32_t epoch, const char* operation,
                                    const char* algorithm, Rank root, std::uint64_t bytes,
                                    Instant now) {
  FlightRecord& record = ring_[epoch % kRecords];
  record = {.epoch = epoch,
            .operation = operation,
            .algorithm = algorithm,
            .root = root,
            .bytes = bytes,
            .started = now};
  record.entered[0] = now;
  if (trace_ != nullptr) record.traced_since = record.phase_traced_since = trace_->now();
  ++count_;
  return record;
}

FlightRecord* FlightRecorder::find(std::uint32_t epoch) {
  FlightRecord& record = ring_[epoch % kRecords];
  return count_ > 0 && record.epoch == epoch ? &record : nullptr;
}

void FlightRecorder::enter(std::uint32_t epoch, Phase phase, Instant now) {
  FlightRecord* record = find(epoch);
  if (record == nullptr) return;
  if (trace_ != nullptr) trace(*record, phase);
  record->phase = phase;
  record->entered[static_cast<std::size_t>(phase)] = now;
}

/// Adds the span of the phase that ends now to the trace. If the collective ends as well, also adds
/// the span of the collective.
void FlightRecorder::trace(FlightRecord& record, Phase next) {
  constexpr const char* kNames[] = {"queued", "ready barrier", "data", "handshake", "", ""};
  if (record.traced_since == Instant{}) return;  // the collective began before tracing was on
  const Instant at = trace_->now();
  TraceSpan span{.kind = TraceKind::phase,
                 .epoch = record.epoch,
                 .name = kNames[static_cast<std::size_t>(record.phase)],
                 .begin = record.phase_traced_since,
                 .end = at};
  if (record.phase != Phase::queued) trace_->add(span);
  record.phase_traced_since = at;
  if (next != Phase::done && next != Phase::failed) return;
  span.kind = TraceKind::collective;
  span.name = record.operation;
  span.detail = record.algorithm;
  span.begin = record.traced_since;
  span.peer = record.root;
  span.bytes = record.bytes;
  trace_->add(span);
}

void FlightRecorder::progress(std::uint32_t epoch, std::uint64_t present, std::uint64_t total) {
  FlightRecord* record = find(epoch);
  if (record == nullptr) return;
  record->chunks_present = present;
  record->chunks_total = total;
}

nlohmann::json FlightRecorder::to_json(Rank rank, std::uint32_t size, Instant now) const {
  nlohmann::json collectives = nlohmann::json::array();
  std::vector<const FlightRecord*> records;
  for (const FlightRecord& record : ring_) {
    if (record.operation[0] != '\0') records.push_back(&record);
  }
  std::sort(records.begin(), records.end(),
            [](const FlightRecord* a, const FlightRecord* b) { return a->started < b->started; });
  for (const FlightRecord* record : records) {
    nlohmann::json phases = nlohmann::json::object();
    for (std::size_t p = 0; p < record->entered.size(); ++p) {
      if (record->entered[p].nanoseconds == 0) continue;
      phases[to_string(static_cast<Phase>(p))] = (record->entered[p] - record->started).count();
    }
    nlohmann::json one = {{"sequence", record->epoch},
                          {"operation", record->operation},
                          {"algorithm", record->algorithm},
                          {"bytes", record->bytes},
                          {"state", to_string(record->phase)},
                          {"chunks_present", record->chunks_present},
                          {"chunks_total", record->chunks_total},
                          {"started_ns", record->started.nanoseconds},
                          {"age_ns", (now - record->started).count()},
                          {"phase_entered_ns", phases}};
    if (record->root != kNoRank) one["root"] = index(record->root);
    collectives.push_back(std::move(one));
  }
  return {{"rank", index(rank)}, {"size", size}, {"collectives", std::move(collectives)}};
}

}  // namespace tutti::observe
