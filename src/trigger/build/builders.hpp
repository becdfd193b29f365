// Descriptor sequences of the source's collectives (T6): what a rank posts for one segment.
//
// All builders work for any number of ranks within their limits. Every sequence that they return
// completes only when its packets have been consumed, or when later packets cannot overtake them,
// so a port may be used again as soon as its sequence has completed at this rank.
//
// Which result a reduction gives is a fact of the builder, and the same on every run:
//   flat       strictly by rank: ((a0 op a1) op a2) ...; at most 16 other ranks
//   halving    a fixed tree whose operands stand in rank order: neighbours first, then pairs of
//              pairs (vector halving, distance doubling). With a number of ranks that is no power
//              of two, the first ranks pair up before that. Reduce and Allreduce give the same bits
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
  reduce_flat,  ///< all to the root, folded by rank
  allreduce,    ///< Rabenseifner: vector halving and distance doubling, then the way back
};

const char* to_string(CollectiveKind kind);
/// Ports that a segment of this collective uses, from its first on.
std::uint32_t ports_of(CollectiveKind kind);

/// One segment of a collective call, as one rank sees it.
struct CollectiveCall {
  CollectiveKind kind = CollectiveKind::barrier;
  std::span<const NodeId> nodes;  ///< by rank
  std::uint32_t rank = 0;
  std::uint32_t root = 0;
  JobId job{};
  Port port{};  ///< the first
  std::uint32_t elements = 0;
  reduction::Operation operation = reduction::Operation::sum;
  reduction::ElementType type = reduction::ElementType::int8;
  Address input = kNoAddress;   ///< read only; a broadcast has none
  Address output = kNoAddress;  ///< the result; where a rank of reduce gets none, its work space
};

/// The sequences of a call. Errors (invalid_argument, unsupported) say what does not fit: rank or
/// root out of range, more steps than 5 bits count, more children than 16, an operation on a type.
Result<std::vector<DescriptorList>> build_sequences(const CollectiveCall& call);

}  // namespace tutti::trigger
