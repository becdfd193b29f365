// Whether the buffers of a call fit its collective, and whether it is in place.
#pragma once

#include <cstdint>

#include "tutti/collective.hpp"
#include "tutti/status.hpp"

namespace tutti::runtime {

/// Errors (invalid_argument) name the collective, the buffer and the size that it needs.
Status check_call(const CollectiveCall& call, Rank rank, std::uint32_t size);

/// Bytes of a block: the message of Broadcast and of reductions to one result, else what one rank
/// gives to one other; the largest for Allgatherv. Of a call that was checked.
std::uint64_t block_bytes_of(const CollectiveCall& call, std::uint32_t size);

/// Whether send and receive buffer share memory as the collective allows.
bool is_in_place(const CollectiveCall& call, Rank rank, std::uint64_t block_bytes);

}  // namespace tutti::runtime
