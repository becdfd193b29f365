// Names of the routes beside the engine, for CollectiveOptions::algorithm.
#pragma once

#include "tutti/collective.hpp"

namespace tutti::runtime {

/// Through the leaders of hosts.
inline constexpr Algorithm kHierarchical{"hierarchical"};
/// Through aggregators, folded in the order of ranks.
inline constexpr Algorithm kInNetwork{"in_network"};
/// Through aggregators, with the bits of a ring where that sends less.
inline constexpr Algorithm kInNetworkRing{"in_network_ring"};

}  // namespace tutti::runtime
