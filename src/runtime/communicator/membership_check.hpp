// The membership check of a new communicator: the ranks find out together whether the network
// passes multicast from every rank to every other rank.
#pragma once

#include <string>
#include <vector>

#include "engine/core/communicator_context.hpp"
#include "tutti/status.hpp"
#include "tutti/units.hpp"

namespace tutti::runtime {

/// The remedy for a network that does not pass multicast.
inline constexpr const char* kMulticastRemedy =
    "Check that a switch with IGMP snooping has an IGMP querier, that firewalls let UDP to "
    "239.192.0.0/14 pass, and that TUTTI_INTERFACE names the same network on all hosts (`tutti "
    "info`)";

/// A way that multicast does not pass.
struct MulticastGap {
  std::string text;         ///< clause that names the ranks; empty: there is no gap
  std::vector<Rank> ranks;  ///< rank that does not hear, then the rank that it does not hear
};

/// Collective. Each rank multicasts probes until it knows the result of every rank. Returns an
/// empty gap if every rank has heard every other rank on every subgroup, otherwise the gap at a
/// rank that has not, the same on all ranks. Fails with Code::timeout if a rank does not
/// answer within `timeout`. `names` are the ranks' hosts. If `probes` is false, no rank multicasts,
/// and the ranks only wait for each other.
Result<MulticastGap> check_membership(engine::CommunicatorContext& context,
                                      const std::vector<std::string>& names, bool probes,
                                      Nanoseconds timeout);

}  // namespace tutti::runtime
