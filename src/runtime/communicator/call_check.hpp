// Checks that the buffers of a call fit its collective, and finds out whether the call is in place.
#pragma once

#include <cstdint>

#include "tutti/collective.hpp"
#include "tutti/status.hpp"

namespace tutti::runtime {

/// Checks a call. An error (invalid_argument) names the collective, the buffer and the size that it
/// needs.
Status check_call(const CollectiveCall& call, Rank rank, std::uint32_t size);

/// Bytes of a block of a checked call: the whole message for Broadcast, Reduce and Allreduce, the
/// largest block for Allgatherv, and otherwise the part that one rank sends to another.
std::uint64_t block_bytes_of(const CollectiveCall& call, std::uint32_t size);

/// True if send and receive buffer share memory in the way that the collective allows.
bool is_in_place(const CollectiveCall& call, Rank rank, std::uint64_t block_bytes);

}  // namespace tutti::runtime
