// The bootstrap by a unique id: made on rank 0, carried to the others by any means they have.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>

#include "runtime/bootstrap/bootstrap.hpp"

namespace tutti::runtime {

/// 127 printable characters and a final NUL: copy it as bytes or as a C string. It holds the
/// address of rank 0's store and a random token; who has it can join the job.
using UniqueId = std::array<char, 128>;

/// Makes an id and starts the store that it leads to, in this process, which must then join as
/// rank 0. `host` is how the others reach this process; empty: an address of this host's first
/// running interface. An id that is never joined holds a port and a thread until discarded.
Result<UniqueId> make_unique_id(const std::string& host = {});

/// Joins as one of `size` ranks; returns when all have joined. Rank 0 joins where the id was made.
/// `method` begins the description.
Result<std::unique_ptr<Bootstrap>> join_unique_id(const UniqueId& id, Rank rank, std::uint32_t size,
                                                  Nanoseconds timeout,
                                                  const std::string& method = "unique id");

/// Ends the store of an id that this process made and did not join.
void discard_unique_id(const UniqueId& id);

/// The id in a text, as another process printed it; shorter texts lack the padding.
Result<UniqueId> parse_unique_id(std::string_view text);

}  // namespace tutti::runtime
