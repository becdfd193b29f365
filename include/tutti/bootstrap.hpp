// Ways to start a job without a launcher: a unique id that the application distributes, or an
// exchange function that the application supplies, such as one over MPI_Allgather.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "tutti/export.hpp"
#include "tutti/status.hpp"
#include "tutti/units.hpp"

namespace tutti {

/// Identifies a job that is being started: holds the address of a store in rank 0's process and a
/// random token. The application copies the id to the other ranks. Any process that has the id can
/// join the job.
struct TUTTI_EXPORT UniqueId {
  std::array<char, 128> text{};  ///< id as 127 printable characters and a terminating NUL

  /// Makes an id in the process that will be rank 0 and starts the store in that process. The store
  /// uses a TCP port and a thread until rank 0 has joined or calls discard(). `host` is the address
  /// at which the other ranks reach this process; an empty `host` selects the address of the first
  /// interface that is up and is not the loopback.
  static Result<UniqueId> create(const std::string& host = {});
  /// Parses the text of an id that another process made; padding at the end may be missing. Fails
  /// with Code::invalid_argument if the text is not an id.
  static Result<UniqueId> parse(std::string_view printed);
  /// Stops the store of this id if this process made the id and rank 0 has not joined; otherwise
  /// does nothing.
  void discard() const;
};

/// An allgather that the application supplies. It copies the `mine` of every rank, in rank order,
/// into `all`. `mine` has the same size on every rank, and `all` is that size times the number of
/// ranks. The function blocks until the exchange is complete. If this takes longer than `timeout`,
/// the function must return an error, because the library cannot interrupt it. An exception counts
/// as an error.
using ExchangeCallback = std::function<Status(std::span<const std::byte> mine,
                                              std::span<std::byte> all, Nanoseconds timeout)>;

}  // namespace tutti
