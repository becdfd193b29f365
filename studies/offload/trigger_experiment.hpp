// The source's experiments with its offloaded collectives (T6): how full the hash buffers are
// (table 1), and how much faster than host-based Broadcast and Reduce are (figs. 5 and 6).
#pragma once

#include <array>
#include <cstdint>

#include "studies/offload/host_network.hpp"
#include "studies/offload/trigger_network.hpp"
#include "tutti/status.hpp"

namespace tutti::simulation {

/// The sizes and numbers of jobs of section 2.2.
inline constexpr std::array<std::uint64_t, 13> kOffloadSizes = {
    256,        4u << 10,   8u << 10,   16u << 10,  32u << 10,  48u << 10, 64u << 10,
    128u << 10, 256u << 10, 384u << 10, 512u << 10, 768u << 10, 1u << 20};
inline constexpr std::array<std::uint32_t, 3> kOffloadJobs = {1, 8, 32};
/// A Broadcast is cut into so many pieces, offloaded or not; what T_MsgSize is of. Assumed: the
/// pulses of PulsedCredits where nobody says otherwise.
inline constexpr std::uint32_t kBroadcastPieces = 4;

/// The interface of the source for a collective: 8 units of 512 KB, 32 nodes, and credits for what
/// the buffers hold without their reserve. Slots of 1 KiB, and a sequence for each, are assumed.
TriggerNetworkSpec tianhe_interface(trigger::CollectiveKind kind, std::uint64_t bytes,
                                    std::uint32_t jobs);

struct OffloadSpeedup {
  TriggerNetworkReport offloaded;
  HostNetworkReport host;
  double speedup = 0;  ///< by the times to the last process' end
  double formula = 0;  ///< (1) or (2) of the source, with the same parameters, for one hop
  std::uint64_t startup_bytes = 0;  ///< the formula's T is of
};

/// Offloaded as `spec` says beside its host-based counterpart on the same network. Broadcasts and
/// reductions; errors as the two runs'.
Result<OffloadSpeedup> run_offload_speedup(const TriggerNetworkSpec& spec);

}  // namespace tutti::simulation
