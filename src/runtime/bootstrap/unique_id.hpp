// The bootstrap by a unique id: rank 0 makes the id, and the application passes it to the other
// ranks.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>

#include "runtime/bootstrap/bootstrap.hpp"

namespace tutti::runtime {

/// A unique id as 127 printable characters and a NUL: the address of rank 0's store and a random
/// token. A process that has the id can join the job.
using UniqueId = std::array<char, 128>;

/// Makes an id and starts its store in this process, which must then join as rank 0. The id
/// contains the address `host`, at which the other ranks reach the store; if `host` is empty, it
/// contains the address of the first running interface. If rank 0 never joins, the store occupies a
/// port and a thread until the id is discarded.
Result<UniqueId> make_unique_id(const std::string& host = {});

/// Joins a job as one of `size` ranks and returns when all have joined; rank 0 must join in the
/// process that made the id. The description() of the returned bootstrap begins with `method`.
Result<std::unique_ptr<Bootstrap>> join_unique_id(const UniqueId& id, Rank rank, std::uint32_t size,
                                                  Nanoseconds timeout,
                                                  const std::string& method = "unique id");

/// Stops the store of an id that this process made, unless this process has joined with the id.
void discard_unique_id(const UniqueId& id);

/// Reads an id that another process printed. The text may lack the dots that pad an id to its fixed
/// length.
Result<UniqueId> parse_unique_id(std::string_view text);

}  // namespace tutti::runtime
