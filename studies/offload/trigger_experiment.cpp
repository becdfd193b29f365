#include "studies/offload/trigger_experiment.hpp"

#include "base/error.hpp"

namespace tutti::simulation {

using trigger::CollectiveKind;

namespace {

constexpr std::uint32_t kUnits = 8;
constexpr std::uint32_t kBufferBytes = 512 * 1024;
constexpr std::uint32_t kSlotBytes = 1024;
constexpr std::uint32_t kMaxJobs = 32;
// The hash buffers of a node have room for kPulses credit batches of 80 slots each, not counting
// the reserve for collisions. One job may have kWindow batches in flight, which are about 1 MiB of
// data.
constexpr std::uint32_t kPulses = 46;
constexpr std::uint32_t kWindow = 13;

std::uint32_t home_slots() {
  return trigger::HashBuffer({kBufferBytes / kSlotBytes, kSlotBytes, 1}).home_slots();
}

}  // namespace

TriggerNetworkSpec tianhe_interface(CollectiveKind kind, std::uint64_t bytes, std::uint32_t jobs) {
  TriggerNetworkSpec spec;
  spec.kind = kind;
  spec.bytes = bytes;
  spec.jobs = jobs;
  spec.shared_links = kind != CollectiveKind::broadcast;
  spec.bank.units = kUnits;
  spec.bank.jobs = kMaxJobs;
  spec.bank.ports = trigger::kPorts;
  spec.bank.unit = {.buffer_bytes = kBufferBytes,
                    .slot_bytes = kSlotBytes,
                    .sequences = kBufferBytes / kSlotBytes};
  spec.credits = {
      .capacity_elements = std::uint64_t{kUnits} * home_slots() * (kSlotBytes / sizeof(double)),
      .pulses = kPulses,
      .window = kWindow,
      .requests = jobs,
      .counters = kPulses};
  spec.segment_bytes = kSlotBytes;
  if (kind != CollectiveKind::broadcast) return spec;
  // The data of a Broadcast is written directly to memory instead of a hash buffer. The credits
  // therefore only determine into how many credit batches the data is cut.
  const std::uint64_t elements = bytes / sizeof(double);
  const std::uint64_t piece = (elements + kBroadcastPieces - 1) / kBroadcastPieces;
  spec.credits.pulses = (kBroadcastPieces + 1) * jobs;
  spec.credits.capacity_elements = spec.credits.pulses * piece;
  spec.credits.window = kBroadcastPieces;
  spec.credits.requests = jobs;
  spec.credits.counters = spec.credits.pulses;
  spec.segment_bytes = static_cast<std::uint32_t>(piece * sizeof(double));
  return spec;
}

Result<OffloadSpeedup> run_offload_speedup(const TriggerNetworkSpec& spec) {
  const bool broadcast = spec.kind == CollectiveKind::broadcast;
  if (!broadcast && spec.kind != CollectiveKind::reduce && spec.kind != CollectiveKind::allreduce) {
    return failure(
        Code::invalid_argument,
        "no host-based collective can be compared with {}: use broadcast, reduce or allreduce",
        to_string(spec.kind));
  }
  OffloadSpeedup result;
  auto offloaded = run_trigger_network(spec);
  if (!offloaded) return offloaded.status();
  result.offloaded = *offloaded;
  HostNetworkSpec host;
  host.nodes = spec.nodes;
  host.jobs = spec.jobs;
  host.kind = spec.kind;
  host.bytes = spec.bytes;
  // The host-based Reduce exchanges one half of the remaining vector at each step, as a single
  // piece.
  host.pieces = broadcast ? kBroadcastPieces : 1;
  host.latency = spec.latency;
  host.shared_links = spec.shared_links;
  host.start_spread = spec.start_spread;
  host.seed = spec.seed;
  auto run = run_host_network(host);
  if (!run) return run.status();
  result.host = *run;
  result.speedup = sim::to_seconds(result.host.time) / sim::to_seconds(result.offloaded.time);
  result.startup_bytes = broadcast ? spec.bytes / kBroadcastPieces : spec.bytes / 2;
  result.formula = broadcast ? broadcast_formula(spec.latency, result.startup_bytes)
                             : reduce_formula(spec.latency, result.startup_bytes);
  return result;
}

}  // namespace tutti::simulation
