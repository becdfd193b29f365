// Descriptor sequences for the collectives of [Xu25] 1.2: the sequences of one rank for one
// segment.
//
// All builders work for any number of ranks within their limits. Each returned sequence completes
// only when its packets have been consumed or later packets cannot overtake them, so a port may be
// reused as soon as its sequence has completed at this rank.
//
// The builder determines the order of a fold, which is the same in every run:
//   flat       strictly by rank: ((a0 op a1) op a2) ...; at most 16 other ranks
//   halving    a fixed tree with operands in rank order: neighbours, then pairs of pairs. If the
//              number of ranks is not a power of two, the first ranks form pairs before that.
//              Reduce and Allreduce give the same bits
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "reduction/element_type.hpp"
#include "trigger/build/sequence_builder.hpp"
#include "tutti/status.hpp"

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

/// The sequences of a call. Errors (invalid_argument, unsupported) name the excess: rank or root
/// out of range, more steps than 5 bits count, more than 16 children, an operation on a type.
Result<std::vector<DescriptorList>> build_sequences(const CollectiveCall& call);

}  // namespace tutti::trigger
