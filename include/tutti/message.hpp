// Tagged messages from one rank to another.
#pragma once

#include <cstdint>

#include "tutti/priority.hpp"
#include "tutti/units.hpp"

namespace tutti {

/// As the source of a receive, kAnyRank accepts a message of any rank.
inline constexpr Rank kAnyRank = kNoRank;

/// Options of Communicator::send and Communicator::receive.
struct MessageOptions {
  /// Mask of the tag bits that a receive compares with the tag of a message; sends ignore it.
  std::uint64_t tag_mask = UINT64_MAX;
  /// A hint that the caller will wait right after the start, so that the progress thread can stay
  /// asleep.
  bool will_wait = false;
  /// Priority of the data that this rank sends. It does not apply to a long message, which the
  /// receiver fetches by READ; a long message always has normal priority.
  Priority priority = Priority::normal;
};

/// The message that a receive has got.
struct MessageInfo {
  Rank source = kNoRank;
  std::uint64_t tag = 0;
  std::uint64_t bytes = 0;  ///< length of the message as sent, which may exceed the buffer
};

}  // namespace tutti
