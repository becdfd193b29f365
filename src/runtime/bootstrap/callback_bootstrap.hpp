// The bootstrap over the caller's own allgather, such as MPI_Allgather or a torch store.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "runtime/bootstrap/bootstrap.hpp"

namespace tutti::runtime {

/// Gathers every rank's equally long `mine`, in rank order, into `all` (size x length). It blocks
/// and must itself fail after `timeout`, because the library cannot interrupt it.
using AllgatherCallback = std::function<Status(std::span<const std::byte> mine,
                                               std::span<std::byte> all, Nanoseconds timeout)>;

/// Each allgather() of the result calls `callback` twice: for the lengths and then, unless all are
/// zero, for the bytes padded to the longest. An exception of the callback becomes a failure.
Result<std::unique_ptr<Bootstrap>> make_callback_bootstrap(Rank rank, std::uint32_t size,
                                                           AllgatherCallback callback,
                                                           std::string description = "callback");

}  // namespace tutti::runtime
