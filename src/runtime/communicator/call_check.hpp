// Whether the buffers of a call fit its collective, and whether it is in place.
#pragma once

#include <cstdint>

#include "tutti/collective.hpp"
#include "tutti/status.hpp"

namespace tutti::runtime {

/// Errors (invalid_argument) name the collective, the buffer and the size that it needs.
Status check_call(const CollectiveCall& call, Rank rank, std::uint32_t size);

/// Bytes of a block of a checked call: the message of Broadcast, Reduce and Allreduce, else the part
/// that one rank sends to another; the largest for Allgatherv.
std::uint64_t block_bytes_of(const CollectiveCall& call, std::uint32_t size);

/// Whether send and receive buffer share memory as the collective allows.
bool is_in_place(const CollectiveCall& call, Rank rank, std::uint64_t block_bytes);

}  // namespace tutti::runtime
