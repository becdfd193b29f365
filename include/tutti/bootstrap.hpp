// How the ranks of a job find each other where the environment does not say: a unique id, or an
// exchange that the program has already (MPI_Allgather, a key-value store).
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

/// Leads the ranks of one job to each other: the address of a store in rank 0's process and a random
/// token. Copy it by any means. A process that has the id can join the job.
struct TUTTI_EXPORT UniqueId {
  std::array<char, 128> text{};  ///< 127 printable characters and a NUL

  /// Makes an id in the process that will be rank 0, and starts the store there. `host`: how the
  /// other ranks reach this process; empty: the address of its first running interface. The store
  /// holds a port and a thread until rank 0 has joined or discard() is called.
  static Result<UniqueId> create(const std::string& host = {});
  /// The id in a text that another process printed; padding may be missing. Fails with
  /// Code::invalid_argument for a text that is no id.
  static Result<UniqueId> parse(std::string_view printed);
  /// Ends the store of an id that this process made and did not join; no effect otherwise.
  void discard() const;
};

/// The program's own exchange: gathers `mine` of every rank, all of the same size, in the order of
/// ranks into `all` (ranks x size bytes). Blocks, and should fail by itself after `timeout`, since
/// the library cannot interrupt it. An exception counts as a failure.
using ExchangeCallback = std::function<Status(std::span<const std::byte> mine,
                                              std::span<std::byte> all, Nanoseconds timeout)>;

}  // namespace tutti
