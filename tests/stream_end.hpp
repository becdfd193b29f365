// Detects, on the side of a stranger, that a door has ended the connection.
#pragma once

#include <array>
#include <cstddef>

#include "runtime/bootstrap/store/stream.hpp"

namespace tutti::test {

/// True if the door ends the connection before the deadline, possibly after an alert.
inline bool ends(runtime::Stream& stream, runtime::Deadline deadline) {
  std::array<std::byte, 4096> buffer;
  while (true) {
    const auto got = stream.receive_some(buffer, deadline);
    if (!got.ok()) return got.status().code() == Code::peer_failed;
    if (*got == 0) return true;
  }
}

}  // namespace tutti::test
