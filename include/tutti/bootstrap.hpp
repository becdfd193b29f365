// Ways to start a job without a launcher: a unique id that the program distributes, or an exchange
// that the program already has (MPI_Allgather, a key-value store).
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

/// Lets the ranks of a job find each other: holds the address of a store in rank 0's process and a
/// random token. The application copies the id to the other ranks; any process that has the id can
/// join the job.
struct TUTTI_EXPORT UniqueId {
  std::array<char, 128> text{};  ///< 127 printable characters and a NUL

  /// Makes an id in the process that will be rank 0 and starts the store there; the store holds a
  /// port and a thread until rank 0 has joined or calls discard(). `host` is the address under
  /// which the other ranks reach this process; empty: the address of its first running interface.
  static Result<UniqueId> create(const std::string& host = {});
  /// Reads an id that another process printed; padding at the end may be missing. Fails with
  /// Code::invalid_argument if the text is not an id.
  static Result<UniqueId> parse(std::string_view printed);
  /// Stops the store of an id that this process made and did not join; no effect on other ids.
  void discard() const;
};

/// The program's own exchange: gathers the equally long `mine` of every rank, in rank order, into
/// `all` (ranks x size bytes). It blocks and must itself fail after `timeout`, because the library
/// cannot interrupt it; an exception counts as a failure.
using ExchangeCallback = std::function<Status(std::span<const std::byte> mine,
                                              std::span<std::byte> all, Nanoseconds timeout)>;

}  // namespace tutti
