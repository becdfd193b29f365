// The experiments of [Xu25] 2.2 and 2.3 with offloaded collectives: use of the hash buffers (table
// 1), and speedup over host-based Broadcast and Reduce (figs. 5 and 6).
#pragma once

#include <array>
#include <cstdint>

#include "studies/offload/host_network.hpp"
#include "studies/offload/trigger_network.hpp"
#include "tutti/status.hpp"

namespace tutti::simulation {

/// The vector sizes and numbers of jobs in [Xu25] 2.2.
inline constexpr std::array<std::uint64_t, 13> kOffloadSizes = {
    256,        4u << 10,   8u << 10,   16u << 10,  32u << 10,  48u << 10, 64u << 10,
    128u << 10, 256u << 10, 384u << 10, 512u << 10, 768u << 10, 1u << 20};
inline constexpr std::array<std::uint32_t, 3> kOffloadJobs = {1, 8, 32};
/// Number of pieces in which a Broadcast sends its data, offloaded or host-based; T_MsgSize is the
/// time of one piece. Assumed to be the default number of credit batches of PulsedCredits.
inline constexpr std::uint32_t kBroadcastPieces = 4;

/// The settings of [Xu25] for a collective: 32 nodes, 8 trigger units of 512 KB, and credits for as
/// much data as fits the hash buffers without their reserve for collisions. Slots of 1 KiB and one
/// sequence for each slot are assumed.
TriggerNetworkSpec tianhe_interface(trigger::CollectiveKind kind, std::uint64_t bytes,
                                    std::uint32_t jobs);

struct OffloadSpeedup {
  TriggerNetworkReport offloaded;
  HostNetworkReport host;
  /// Host-based time divided by offloaded time, each measured until the last process ends.
  double speedup = 0;
  /// Speedup for one hop by formula (1) or (2) of [Xu25] 2.2 with the same parameters.
  double formula = 0;
  std::uint64_t startup_bytes = 0;  ///< number of bytes in the start-up terms of the formula
};

/// Runs the collective of `spec`, a Broadcast or a reduction, once offloaded and once host-based on
/// the same network. Errors are those of the two runs.
Result<OffloadSpeedup> run_offload_speedup(const TriggerNetworkSpec& spec);

}  // namespace tutti::simulation
