// The hook through which tests lose or repeat outgoing frames of reliable connections.
#pragma once

#include "tutti/units.hpp"

namespace tutti::device {

/// Decides how often each datagram of a reliable connection is sent. Used by the endpoints'
/// threads.
class FrameTap {
 public:
  virtual ~FrameTap() = default;
  /// Number of copies to send: 0 loses the frame, 1 is normal, 2 duplicates it.
  virtual unsigned copies(Rank from, Rank to) = 0;
};

}  // namespace tutti::device
