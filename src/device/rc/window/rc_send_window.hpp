// The unacknowledged frames of one direction, in flight or lost, and the limit of those in flight.
//
// Loss is detected by the order of transmission, as in RACK and QUIC (RFC 8985, RFC 9002): a frame
// is lost if a frame that was sent three transmissions later has arrived. It is also lost if any
// frame that was sent later has arrived and about 1.25 round trips have passed since the frame
// itself was sent. If no later frame arrives, the first missing frame is retransmitted after the
// retransmission timeout, which doubles until an ACK arrives (RFC 6298).
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "device/rc/rc_frame.hpp"
#include "device/rc/window/rc_congestion_window.hpp"
#include "device/rc/window/rc_retransmission_timeout.hpp"
#include "tutti/units.hpp"

namespace tutti::device::rc {

struct SendWindowLimits {
  std::uint32_t initial_sequence = 0;
  std::uint32_t max_frames = 0;  ///< largest number of frames in flight, see CongestionWindow
  RetransmissionTimeout::Limits timeout;
};

class SendWindow {
 public:
  explicit SendWindow(const SendWindowLimits& limits);

  /// True if a new frame may be sent; lost frames are sent first.
  bool may_send_new() const {
    return lost_.count == 0 && flying_.count < window_frames() &&
           next_ - oldest_ < kRcReceiveWindowFrames &&
           next_ - oldest_ < 2 * congestion_.max_frames();
  }
  /// True if a frame is lost and may be retransmitted now.
  bool may_resend() const { return lost_.count > 0 && congestion_.may_resend(flying_.count); }
  /// Records that a new frame is sent and returns its sequence number. Requires may_send_new().
  std::uint32_t send_new(Instant now, const FrameRecord& record);
  /// Records that the oldest lost frame is retransmitted and returns its sequence number. Requires
  /// may_resend().
  std::uint32_t resend(Instant now);
  /// The record of the frame whose number send_new or resend has just returned; valid until the
  /// frame is acknowledged.
  FrameRecord& record(std::uint32_t sequence) { return slot_of(sequence).record; }
  /// True if `sequence` was transmitted more than once.
  bool resent(std::uint32_t sequence) { return slot_of(sequence).resent; }
  /// Records that the frame with the number `sequence` has not left this host, so that it will be
  /// sent again. Returns false if that frame is not in flight.
  bool take_back(std::uint32_t sequence);

  /// Applies the ACK in a frame. The ACK covers every sequence number before `acknowledged` and, in
  /// an ack frame, every one that is set in the bitmap. Calls acknowledged_frame(FrameRecord&) once
  /// for each newly acknowledged frame. Returns false if the ACK covers a frame that was never
  /// sent.
  template <typename Callback>
  bool acknowledge(Instant now, const RcFrame& frame, Callback&& acknowledged_frame);

  /// Declares lost all frames that by now meet a criterion for loss; returns true if the
  /// retransmission timeout has expired.
  bool on_timer(Instant now);
  /// Time at which on_timer must be called.
  Instant deadline() const;

  bool any_lost() const { return lost_.count > 0; }
  bool unacknowledged() const { return next_ != oldest_; }
  /// The first sequence number that is not acknowledged.
  std::uint32_t oldest() const { return oldest_; }
  /// Sequence number of the next new frame.
  std::uint32_t next() const { return next_; }
  /// Time at which the oldest frame counts as impossible to deliver: `patience` after it became the
  /// oldest frame. kNever until the peer has answered kMaxDeliveries transmissions of this frame
  /// without acknowledging it.
  Instant undelivered_at(Nanoseconds patience) const {
    return deliveries_missed_ >= kMaxDeliveries ? oldest_since_ + patience : kNever;
  }
  std::uint32_t window_frames() const { return congestion_.frames(); }
  /// Limits the number of frames in flight until the next call of hold_back or end_hold_back. The
  /// limit is the present number plus `more`, but at least `least`.
  void hold_back(std::uint32_t least, std::uint32_t more) {
    congestion_.limit(std::max(least, flying_.count + more));
  }
  void end_hold_back() { congestion_.limit(UINT32_MAX); }
  Nanoseconds smoothed_round_trip() const { return timeout_.smoothed_round_trip(); }
  std::uint32_t timeouts_in_a_row() const { return timeout_.in_a_row(); }
  /// Time at which the oldest unacknowledged frame became the oldest.
  Instant oldest_since() const { return oldest_since_; }
  void forget_timeouts() { timeout_.restart(); }
  /// Records that a frame was lost in either direction; for a while, the path then counts as lossy.
  void note_loss() { lossy_until_ = transmissions_ + kLossMemoryFrames; }
  bool path_loses() const { return transmissions_ < lossy_until_; }
  /// True if `sequence` is in flight.
  bool flying(std::uint32_t sequence) {
    return sequence - oldest_ < next_ - oldest_ && slot_of(sequence).state == State::flying;
  }

 private:
  static constexpr std::uint32_t kNone = UINT32_MAX;
  static constexpr std::uint64_t kReorderTolerance = 3;
  static constexpr std::uint64_t kLossMemoryFrames = 1024;
  /// Number of lost transmissions after which a frame counts as impossible to deliver. At 30 %
  /// random loss one frame in two million is lost this often.
  static constexpr std::uint32_t kMaxDeliveries = 12;

  enum class State : std::uint8_t { acknowledged, flying, lost };
  struct Slot {
    FrameRecord record;
    Instant sent_at;
    std::uint64_t transmission = 0;
    std::uint32_t previous = kNone;
    std::uint32_t next = kNone;
    State state = State::acknowledged;
    bool resent = false;
    bool taken_back = false;
  };
  /// A linked list in `slots_`: the frames in flight in order of transmission, or the lost frames
  /// in order of sequence number.
  struct List {
    std::uint32_t head = kNone;
    std::uint32_t tail = kNone;
    std::uint32_t count = 0;
  };
  /// The frames that one ACK newly acknowledges: their number, and their latest transmissions.
  struct Evidence {
    Slot* latest = nullptr;         ///< frame sent once
    Slot* latest_resent = nullptr;  ///< frame sent again
    std::uint32_t frames = 0;
  };

  Slot& slot_of(std::uint32_t sequence) { return slots_[sequence & mask_]; }
  void append_flying(std::uint32_t at);
  void append_lost(std::uint32_t at);
  void remove(List& list, std::uint32_t at);
  void launch(Instant now, std::uint32_t sequence);
  std::uint32_t timed_frame() const;
  void mark_lost(std::uint32_t at);
  void send_again(std::uint32_t at);
  void begin_oldest(Instant now);
  void detect_losses(Instant now);
  void settle(std::uint32_t at, Evidence& evidence);
  void finish_acknowledge(Instant now, const RcFrame& frame, const Evidence& evidence);

  CongestionWindow congestion_;
  RetransmissionTimeout timeout_;
  std::uint32_t mask_ = 0;
  /// Unacknowledged frames, by sequence number modulo the size, which is a power of two. Empty
  /// until the first frame is sent.
  std::vector<Slot> slots_;
  std::uint32_t oldest_;
  std::uint32_t next_;
  Instant oldest_since_{0};
  /// The peer has answered this many transmissions of the oldest frame without acknowledging the
  /// frame.
  std::uint32_t deliveries_missed_ = 0;
  /// True: a frame of the peer arrived after the last transmission of the oldest frame.
  bool answered_ = false;
  List flying_;
  List lost_;

  std::uint64_t transmissions_ = 0;
  /// The path counts as lossy while `transmissions_` is below this number.
  std::uint64_t lossy_until_ = 0;
  std::uint64_t latest_arrived_ = 0;  ///< number of the latest transmission that arrived; 0: none
  Instant last_progress_{INT64_MIN};  ///< time of the last new acknowledgement or timeout
};

template <typename Callback>
bool SendWindow::acknowledge(Instant now, const RcFrame& frame, Callback&& acknowledged_frame) {
  const std::uint32_t sent = next_ - oldest_;
  const std::uint32_t cumulative = frame.acknowledged - oldest_;
  // An ACK that a newer ACK has overtaken contains an old cumulative number, but its bitmap may
  // report new arrivals.
  const bool stale = static_cast<std::int32_t>(cumulative) < 0;
  if (!stale && cumulative > sent) return false;
  const std::uint32_t oldest = oldest_;
  Evidence evidence;
  const auto apply = [&](std::uint32_t sequence) {
    Slot& slot = slot_of(sequence);
    if (slot.state == State::acknowledged) return;
    settle(sequence & mask_, evidence);
    acknowledged_frame(slot.record);
  };
  if (!stale) {
    for (; oldest_ != frame.acknowledged; ++oldest_) apply(oldest_);
  }
  const std::size_t words = frame.kind == RcKind::ack ? frame.count : 0;
  for (std::size_t i = 0; i < words; ++i) {
    const std::uint32_t first = frame.acknowledged + 1 + static_cast<std::uint32_t>(i) * 64;
    for (std::uint64_t word = word_at(frame, i); word != 0; word &= word - 1) {
      const std::uint32_t sequence = first + static_cast<std::uint32_t>(std::countr_zero(word));
      if (sequence - oldest_ < next_ - oldest_) apply(sequence);
    }
  }
  while (oldest_ != next_ && slot_of(oldest_).state == State::acknowledged) ++oldest_;
  answered_ = true;
  if (oldest_ != oldest) begin_oldest(now);
  if (evidence.frames > 0) finish_acknowledge(now, frame, evidence);
  return true;
}

}  // namespace tutti::device::rc
