// The congestion window: the largest number of frames in flight to one peer. All losses within one
// window halve it once, and each acknowledged window enlarges it by one frame (RFC 5681).
#pragma once

#include <algorithm>
#include <cstdint>

#include "device/rc/rc_frame.hpp"

namespace tutti::device::rc {

class CongestionWindow {
 public:
  /// The window begins at its maximum, which is `max_frames` limited to the range from 4 to
  /// kRcReceiveWindowFrames.
  explicit CongestionWindow(std::uint32_t max_frames)
      : max_frames_(std::clamp<std::uint32_t>(max_frames, kMinFrames, kRcReceiveWindowFrames)),
        frames_(max_frames_) {}

  /// New frames may be sent while fewer frames than this are in flight.
  std::uint32_t frames() const { return std::min(frames_, limit_); }
  std::uint32_t max_frames() const { return max_frames_; }
  /// Limits the frames in flight until `limit` is called again; retransmissions are not limited.
  void limit(std::uint32_t frames) { limit_ = frames; }

  bool may_resend(std::uint32_t in_flight) const { return in_flight < frames_ || allowance_ > 0; }
  void on_resend(std::uint32_t in_flight) {
    if (in_flight >= frames_ && allowance_ > 0) --allowance_;
  }
  void on_acknowledged(std::uint32_t frames) {
    acknowledged_ += frames;
    if (acknowledged_ < frames_) return;
    acknowledged_ = 0;
    frames_ = std::min(frames_ + 1, max_frames_);
  }
  /// Records that a transmission was lost; `newest` is the latest transmission so far. All losses
  /// within one window count once.
  void on_loss(std::uint64_t transmission, std::uint64_t newest) {
    if (transmission <= epoch_end_) return;
    frames_ = std::max(frames_ / 2, kMinFrames);
    acknowledged_ = 0;
    epoch_end_ = newest;
    allowance_ = kMinFrames;
  }
  /// Allows one retransmission to exceed the window.
  void allow_one() { allowance_ = std::max<std::uint32_t>(allowance_, 1); }

 private:
  static constexpr std::uint32_t kMinFrames = 4;

  std::uint32_t max_frames_;
  std::uint32_t frames_;
  std::uint32_t limit_ = UINT32_MAX;
  std::uint32_t acknowledged_ = 0;  ///< frames acknowledged since the window last changed
  std::uint32_t allowance_ = 0;     ///< number of retransmissions that may exceed the window
  std::uint64_t epoch_end_ = 0;     ///< newest transmission when the window was last halved
};

}  // namespace tutti::device::rc
