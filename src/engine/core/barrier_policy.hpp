// Decides which collectives begin with a ready barrier. Sent bytes are unconfirmed until a later
// collective, or a ready barrier, proves that every rank has consumed them. A rank that is late can
// store a limited number of bytes, so a collective that would exceed this number begins with a
// ready barrier.
#pragma once

#include <cstdint>

#include "engine/core/operation.hpp"
#include "engine/core/settings.hpp"

namespace tutti::engine {

class BarrierPolicy {
 public:
  /// At most this many message bytes may arrive at a rank for collectives that it has not begun. A
  /// collective that would exceed this limit begins with a ready barrier.
  static constexpr std::uint64_t kMaxUnexpectedBytes = 4 << 20;

  /// Overhead in bytes of storing one message for a collective that this rank has not begun. It
  /// counts toward the limit in addition to the payload.
  static constexpr std::uint64_t kUnexpectedOverheadBytes = 64;

  /// `lossless`: true for a network that drops no packet for lack of buffers. Credits do not limit
  /// the senders there, so every collective that multicasts begins with a ready barrier.
  BarrierPolicy(const Settings& settings, bool lossless)
      : always_(settings.always_barrier),
        lossless_(lossless),
        window_bytes_(settings.window_bytes) {}

  /// Decides whether `operation` begins with a ready barrier, and counts the bytes of `operation`.
  /// Called once for each collective, in order; all ranks decide alike, because the decision
  /// depends only on the sequence of collectives. `votes`: true if the barrier must carry a rate
  /// vote.
  bool decide(const Operation& operation, bool votes);

 private:
  bool always_;
  bool lossless_;
  std::uint64_t window_bytes_;
  /// Bytes that a late rank needs to store the chunks that some rank may not have consumed yet.
  std::uint64_t unconfirmed_bytes_ = 0;
  /// Message bytes that some rank may not have consumed yet.
  std::uint64_t unconfirmed_unexpected_bytes_ = 0;
};

}  // namespace tutti::engine
