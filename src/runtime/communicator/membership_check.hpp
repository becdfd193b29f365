// The membership check of a new communicator: the ranks find out together whether all of them
// received the same bytes from the bootstrap, whether the network passes multicast from every rank
// to every other rank, and how long its datagrams may be.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/core/communicator_context.hpp"
#include "runtime/keys/key_agreement.hpp"
#include "tutti/status.hpp"
#include "tutti/units.hpp"

namespace tutti::runtime {

/// Text that tells the user the remedy if the network does not pass multicast.
inline constexpr const char* kMulticastRemedy =
    "Check that a switch with IGMP snooping has an IGMP querier, that firewalls let UDP to "
    "239.192.0.0/14 pass, and that TUTTI_INTERFACE names the same network on all hosts (`tutti "
    "info`)";

/// Text that tells the user the remedy if a path does not pass datagrams of full length.
inline constexpr const char* kNarrowPathRemedy =
    "Give the switch ports between the hosts at least the MTU of the hosts, or lower that of the "
    "hosts (ip link set DEVICE mtu BYTES)";

/// A pair of ranks of which one does not receive the multicast of the other.
struct MulticastGap {
  std::string text;         ///< text for errors and warnings; empty: no such pair
  std::vector<Rank> ranks;  ///< the rank that does not receive, then the rank that multicasts
};

/// The path with the lowest limit on the length of datagrams.
struct NarrowPath {
  std::string text;         ///< text for errors and warnings, with the ranks and the size
  std::uint32_t bytes = 0;  ///< the longest of the endpoint's `probe_sizes` that passes all paths
};

/// The result of a membership check, the same on all ranks.
struct MembershipFindings {
  /// A pair of ranks between which multicast does not pass; empty if every rank receives the
  /// multicast of every other rank on every subgroup.
  MulticastGap gap;
  std::optional<NarrowPath> narrow{};  ///< nothing if datagrams of full length pass all paths
};

/// Collective. Each rank sends probes by multicast to all ranks, and by unicast to some, until it
/// has the result of every rank. Fails with Code::timeout if a rank does not answer within
/// `timeout`, and on all ranks with Code::invalid_argument if two ranks differ in `view`. `names`
/// are the ranks' hosts. If `multicast` is false, no rank multicasts.
Result<MembershipFindings> check_membership(engine::CommunicatorContext& context,
                                            const std::vector<std::string>& names,
                                            const ExchangeView& view, bool multicast,
                                            Nanoseconds timeout);

}  // namespace tutti::runtime
