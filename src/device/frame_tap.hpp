// The hook through which tests lose or repeat outgoing frames of reliable connections.
#pragma once

#include <cstddef>

#include "tutti/units.hpp"

namespace tutti::device {

/// Decides how often each datagram of a reliable connection is sent. Used by the endpoints'
/// threads.
class FrameTap {
 public:
  virtual ~FrameTap() = default;
  /// How many copies of a frame of `bytes` leave: 0 loses the frame, 1 is normal, 2 duplicates it.
  virtual unsigned copies(Rank from, Rank to, std::size_t bytes) = 0;
};

}  // namespace tutti::device
