// Names of the routes beside the engine, as values of CollectiveOptions::algorithm.
#pragma once

#include "tutti/collective.hpp"

namespace tutti::runtime {

/// The route through the leaders of hosts.
inline constexpr Algorithm kHierarchical{"hierarchical"};
/// The route through aggregators, with contributions folded in rank order.
inline constexpr Algorithm kInNetwork{"in_network"};
/// The route through aggregators, with the bits of a ring where that sends less.
inline constexpr Algorithm kInNetworkRing{"in_network_ring"};

}  // namespace tutti::runtime
