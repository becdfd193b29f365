// Decides which collectives begin with a ready barrier. Bytes that ranks were sent stay unconfirmed
// until a later collective, or a barrier, proves that every rank has consumed them; unconfirmed
// bytes never exceed what a rank that has called nothing yet can hold.
#pragma once

#include <cstdint>

#include "engine/core/operation.hpp"
#include "engine/core/settings.hpp"

namespace tutti::engine {

class BarrierPolicy {
 public:
  /// Most bytes that a rank may be sent for collectives that it has not begun; more waits for a
  /// ready barrier.
  static constexpr std::uint64_t kMaxUnexpectedBytes = 4 << 20;

  /// `lossless`: no credits bound what is sent, so that every multicast waits for its receivers.
  BarrierPolicy(const Settings& settings, bool lossless)
      : always_(settings.always_barrier),
        lossless_(lossless),
        window_bytes_(settings.window_bytes) {}

  /// Decides whether `operation` begins with a barrier, and counts its bytes; called once for each
  /// collective, in their order. The decision is the same on all ranks because it depends on the
  /// sequence of collectives alone. `votes`: a vote rides on the barrier.
  bool decide(const Operation& operation, bool votes);

 private:
  bool always_;
  bool lossless_;
  std::uint64_t window_bytes_;
  std::uint64_t unconfirmed_bytes_ = 0;             ///< multicast
  std::uint64_t unconfirmed_unexpected_bytes_ = 0;  ///< messages
};

}  // namespace tutti::engine
