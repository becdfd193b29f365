// Where tests interfere below the reliable connections: every frame passes a tap on its way out.
#pragma once

#include "tutti/units.hpp"

namespace tutti::device {

/// Decides over datagrams of the reliable connections. Used by the endpoints' threads.
class FrameTap {
 public:
  virtual ~FrameTap() = default;
  /// How many copies leave: 0 loses the frame, 1 is normal, 2 duplicates it.
  virtual unsigned copies(Rank from, Rank to) = 0;
};

}  // namespace tutti::device
