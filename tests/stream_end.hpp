// Detects that the server, a store or an aggregator, has ended the connection of a client.
#pragma once

#include <array>
#include <cstddef>

#include "runtime/bootstrap/store/stream.hpp"

namespace tutti::test {

/// True if the server ends the connection before the deadline. Bytes that arrive before the end,
/// such as a TLS alert, are ignored.
inline bool ends(runtime::Stream& stream, runtime::Deadline deadline) {
  std::array<std::byte, 4096> buffer;
  while (true) {
    const auto got = stream.receive_some(buffer, deadline);
    if (!got.ok()) return got.status().code() == Code::peer_failed;
    if (*got == 0) return true;
  }
}

}  // namespace tutti::test
