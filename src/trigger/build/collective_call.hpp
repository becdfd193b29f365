// A collective call, as the builders of descriptor sequences take it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "reduction/element_type.hpp"
#include "trigger/build/sequence_builder.hpp"

namespace tutti::trigger {

enum class CollectiveKind : std::uint8_t {
  barrier,      ///< dissemination
  broadcast,    ///< double binary tree, by RDMA; two ports
  reduce,       ///< vector halving and distance doubling, then a binomial gather to the root
  reduce_flat,  ///< all contributions to the root, folded by rank
  allreduce,    ///< Rabenseifner: vector halving and distance doubling, then the reverse path
};

const char* to_string(CollectiveKind kind);
/// Ports that a segment of this collective uses, from its first on.
std::uint32_t ports_of(CollectiveKind kind);

/// One segment of a collective call at one rank.
struct CollectiveCall {
  CollectiveKind kind = CollectiveKind::barrier;
  std::span<const NodeId> nodes;  ///< node, by rank
  std::uint32_t rank = 0;
  std::uint32_t root = 0;
  JobId job{};
  Port port{};  ///< the first port
  std::uint32_t elements = 0;
  reduction::Operation operation = reduction::Operation::sum;
  reduction::ElementType type = reduction::ElementType::int8;
  Address input = kNoAddress;   ///< read only; a Broadcast has none
  Address output = kNoAddress;  ///< the result; work space at ranks of a Reduce that get none
};

}  // namespace tutti::trigger
