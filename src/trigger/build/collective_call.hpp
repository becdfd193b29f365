// The description of a collective call from which descriptor sequences are built.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "reduction/element_type.hpp"
#include "trigger/build/sequence_builder.hpp"

namespace tutti::trigger {

enum class CollectiveKind : std::uint8_t {
  barrier,    ///< dissemination barrier; uses one port
  broadcast,  ///< double binary tree with RDMA writes; uses two ports
  /// Vector halving and distance doubling, then a gather to the root along a binomial tree.
  reduce,
  /// Every rank sends its contribution to the root, which folds all contributions in rank order.
  reduce_flat,
  /// Vector halving and distance doubling (Rabenseifner); results return along the reverse path.
  allreduce,
};

const char* to_string(CollectiveKind kind);
/// Number of consecutive ports that one segment of this collective uses.
std::uint32_t ports_of(CollectiveKind kind);

/// One segment of a collective call at one rank.
struct CollectiveCall {
  CollectiveKind kind = CollectiveKind::barrier;
  std::span<const NodeId> nodes;  ///< node of each rank, indexed by rank
  std::uint32_t rank = 0;
  std::uint32_t root = 0;
  JobId job{};
  Port port{};  ///< first port that the call uses
  std::uint32_t elements = 0;
  reduction::Operation operation = reduction::Operation::sum;
  reduction::ElementType type = reduction::ElementType::int8;
  /// Address of this rank's data, which the call does not change. A Broadcast ignores this address.
  Address input = kNoAddress;
  /// Address for the result; scratch memory at ranks of a Reduce that get no result.
  Address output = kNoAddress;
};

}  // namespace tutti::trigger
