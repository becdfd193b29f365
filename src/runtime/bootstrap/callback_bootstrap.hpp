// A bootstrap that exchanges its data by an allgather function of the caller, such as
// MPI_Allgather.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "runtime/bootstrap/bootstrap.hpp"

namespace tutti::runtime {

/// Gathers blocks of equal size: sends the block `mine`, and fills `all` with the blocks of all
/// ranks in rank order. The callback blocks and must fail by itself after `timeout`, because the
/// library cannot interrupt it.
using AllgatherCallback = std::function<Status(std::span<const std::byte> mine,
                                               std::span<std::byte> all, Nanoseconds timeout)>;

/// Each allgather() of the returned bootstrap calls `callback` to gather the lengths. Unless all
/// lengths are zero, it calls `callback` again to gather the bytes, padded to the greatest length.
/// If the callback throws, the allgather() fails. After a failure every later allgather() fails
/// with the same error and does not call `callback`.
Result<std::unique_ptr<Bootstrap>> make_callback_bootstrap(Rank rank, std::uint32_t size,
                                                           AllgatherCallback callback,
                                                           std::string description = "callback");

}  // namespace tutti::runtime
