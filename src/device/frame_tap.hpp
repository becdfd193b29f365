// The hook through which tests lose or repeat outgoing frames of reliable connections.
#pragma once

#include <cstddef>

#include "tutti/units.hpp"

namespace tutti::device {

/// Decides how many copies of each frame of a reliable connection are sent. Several threads, one
/// for each endpoint, may call `copies` concurrently.
class FrameTap {
 public:
  virtual ~FrameTap() = default;
  /// The number of copies to send of a frame with `bytes` bytes: 0 loses the frame, 1 is normal, 2
  /// duplicates it.
  virtual unsigned copies(Rank from, Rank to, std::size_t bytes) = 0;
  /// True if the multicast copy of a lost frame is lost, too.
  virtual bool loses_multicast() const { return true; }
  /// True if `from` must act as if its kernel lacked the link address of `to`, and therefore held
  /// back unicast datagrams to `to`.
  virtual bool holds_back(Rank /*from*/, Rank /*to*/) const { return false; }
};

}  // namespace tutti::device
