// Names of the routes other than the engine. CollectiveOptions::algorithm accepts these names.
#pragma once

#include "tutti/collective.hpp"

namespace tutti::runtime {

/// The route through the leaders of hosts.
inline constexpr Algorithm kHierarchical{"hierarchical"};
/// The route through aggregators that folds contributions in rank order.
inline constexpr Algorithm kInNetwork{"in_network"};
/// The route through aggregators that folds the contributions of a Reduce-Scatter in the order of
/// the ring algorithm. It folds the contributions of other reductions in rank order.
inline constexpr Algorithm kInNetworkRing{"in_network_ring"};

}  // namespace tutti::runtime
