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
#include <vector>

#include "trigger/build/collective_call.hpp"
#include "tutti/status.hpp"

namespace tutti::trigger {

/// Builds the sequences of a call. Fails with invalid_argument or unsupported, and names the
/// excess: rank or root out of range, more steps than 5 bits count, more than 16 children, an
/// operation that the type lacks.
Result<std::vector<DescriptorList>> build_sequences(const CollectiveCall& call);

}  // namespace tutti::trigger
