// Builds the descriptor sequences of one rank for one segment of a collective of [Xu25] 1.2.
//
// Any number of ranks within the limits of the algorithm is possible. A port may be reused as soon
// as its sequence has completed at this rank. By then either the receivers have consumed the
// packets of the sequence, or no later packet can overtake these packets.
//
// The algorithm determines the order of a fold, which is the same in every run:
//   flat       in rank order, ((a0 op a1) op a2) ..., for at most 17 ranks
//   halving    in a fixed binary tree with operands in rank order; Reduce and Allreduce give the
//              same bits
#pragma once

#include <cstdint>
#include <vector>

#include "trigger/build/collective_call.hpp"
#include "tutti/status.hpp"

namespace tutti::trigger {

/// Builds the sequences of a call. Fails with invalid_argument or unsupported for a rank or root
/// out of range, for more than 32 steps or 16 children, or for an operation that the type does not
/// support.
Result<std::vector<DescriptorList>> build_sequences(const CollectiveCall& call);

}  // namespace tutti::trigger
