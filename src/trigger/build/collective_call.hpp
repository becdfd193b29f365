// A collective call, as the builders of descriptor sequences take it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "reduction/element_type.hpp"
#include "trigger/build/sequence_builder.hpp"

namespace tutti::trigger {

enum class CollectiveKind : std::uint8_t {
  barrier,      ///< dissemination barrier; one port
  broadcast,    ///< double binary tree by RDMA; two ports
  reduce,       ///< vector halving and distance doubling, then a binomial gather to the root
  reduce_flat,  ///< all contributions sent to the root, which folds them by rank
  allreduce,    ///< Rabenseifner: vector halving and distance doubling, then the reverse path
};

const char* to_string(CollectiveKind kind);
/// Number of ports that a segment of this collective uses, counted from its first port.
std::uint32_t ports_of(CollectiveKind kind);

/// One segment of a collective call at one rank.
struct CollectiveCall {
  CollectiveKind kind = CollectiveKind::barrier;
  std::span<const NodeId> nodes;  ///< node of each rank, by rank
  std::uint32_t rank = 0;
  std::uint32_t root = 0;
  JobId job{};
  Port port{};  ///< first port that the call uses
  std::uint32_t elements = 0;
  reduction::Operation operation = reduction::Operation::sum;
  reduction::ElementType type = reduction::ElementType::int8;
  Address input = kNoAddress;   ///< own data, which is only read; not used by a Broadcast
  Address output = kNoAddress;  ///< result; work space at ranks of a Reduce that get no result
};

}  // namespace tutti::trigger
