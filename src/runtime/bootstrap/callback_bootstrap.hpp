// The bootstrap over the caller's own allgather: MPI_Allgather, a torch store, a test.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "runtime/bootstrap/bootstrap.hpp"

namespace tutti::runtime {

/// Gathers `mine` of every rank, all of the same length, by rank into `all` (size x length).
/// Blocks; should fail by itself after `timeout`, since the library cannot interrupt it.
using AllgatherCallback = std::function<Status(std::span<const std::byte> mine,
                                               std::span<std::byte> all, Nanoseconds timeout)>;

/// Every allgather() of the result calls `callback` twice: for the lengths, then, where one is not
/// zero, for the bytes padded to the longest. Exceptions of the callback become a failure.
Result<std::unique_ptr<Bootstrap>> make_callback_bootstrap(Rank rank, std::uint32_t size,
                                                           AllgatherCallback callback,
                                                           std::string description = "callback");

}  // namespace tutti::runtime
