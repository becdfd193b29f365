// Checks that the buffers of a call fit its collective, and finds out whether the call is in place.
#pragma once

#include <cstdint>

#include "tutti/collective.hpp"
#include "tutti/status.hpp"

namespace tutti::runtime {

/// The call without the buffers and arrays that `rank` does not use in it, so that no code reads or
/// fills them.
CollectiveCall without_unused_buffers(CollectiveCall call, Rank rank);

/// Checks that the enumerators of a call exist, and that its operation supports its element type.
/// Tables are indexed by these values, so no other function may read an unchecked call.
Status check_enumerators(const CollectiveCall& call);

/// Checks a call. An error (invalid_argument) names the collective, the buffer and the size that
/// the buffer needs.
Status check_call(const CollectiveCall& call, Rank rank, std::uint32_t size);

/// Size in bytes of a block of a checked call. For Broadcast, Reduce and Allreduce the block is the
/// whole message; for Allgatherv it is the largest block. It is 0 for Barrier, and for the other
/// collectives with blocks of different sizes, because a rank need not know all sizes.
std::uint64_t block_bytes_of(const CollectiveCall& call, std::uint32_t size);

/// True if the send and receive buffers overlap in the way that the collective permits (a call in
/// place).
bool is_in_place(const CollectiveCall& call, Rank rank, std::uint64_t block_bytes);

}  // namespace tutti::runtime
