// The frames of one direction that are not acknowledged yet: which are on their way, which are lost
// and when, and how many may be on their way at once.
//
// Loss is judged by order of transmission, as RACK and QUIC do: a frame is lost when one sent three
// transmissions later has arrived, or when any later one has arrived and a round trip plus a
// quarter has passed. Where nothing later arrives the first frame missing is sent again after the
// retransmission time-out, which doubles while nothing comes back.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "device/rc/rc_frame.hpp"
#include "tutti/units.hpp"

namespace tutti::device::rc {

/// What it takes to build a frame again; the bytes stay where they are.
struct FrameRecord {
  RcKind kind = RcKind::empty;
  std::uint8_t ranges = 0;      ///< read_request
  std::uint32_t operation = 0;  ///< own request, or the peer's for read_response and refused
  std::uint32_t bytes = 0;      ///< data
  std::uint64_t position = 0;   ///< of the data in the operation
  std::uint64_t key = 0;        ///< read_response
  std::uint64_t offset = 0;     ///< read_response: of the operation in the region
};

struct SendWindowLimits {
  std::uint32_t initial_sequence = 0;
  std::uint32_t max_frames = 0;  ///< on their way at once, 4 .. kRcReceiveWindowFrames
  Nanoseconds rto_min{};
  Nanoseconds rto_first_max{};  ///< of the first time-out in a row
  Nanoseconds rto_max{};
};

class SendWindow {
 public:
  explicit SendWindow(const SendWindowLimits& limits);

  /// Whether a new frame may leave. Lost ones go first.
  bool may_send_new() const {
    return lost_.count == 0 && flying_.count < window_frames() &&
           next_ - oldest_ < kRcReceiveWindowFrames && next_ - oldest_ < 2 * max_window_;
  }
  /// Whether a lost frame may leave.
  bool may_resend() const { return lost_.count > 0 && (flying_.count < window_ || allowance_ > 0); }
  /// Takes a new frame on its way; returns its sequence number. Needs may_send_new().
  std::uint32_t send_new(Instant now, const FrameRecord& record);
  /// Takes the oldest lost frame on its way again; returns its number. Needs may_resend().
  std::uint32_t resend(Instant now);
  /// The frame of a number that send_new or resend just gave; stays valid until acknowledged.
  FrameRecord& record(std::uint32_t sequence) { return slot_of(sequence).record; }
  /// Whether `sequence` was transmitted more than once.
  bool resent(std::uint32_t sequence) { return slot_of(sequence).resent; }
  /// The frame did not leave after all: it is to be sent again. False where it is not on its way.
  bool take_back(std::uint32_t sequence);

  /// Applies an acknowledgement: everything before `acknowledged`, and what the words of `ack`
  /// (null: none) show beyond it. Calls acknowledged_frame(FrameRecord&) once for each frame that
  /// is newly acknowledged. False for a number that was never sent.
  template <typename Callback>
  bool acknowledge(Instant now, const RcFrame& frame, Callback&& acknowledged_frame);

  /// Declares lost what is lost by now.
  void on_timer(Instant now);
  /// When on_timer has something to do.
  Instant deadline() const;

  bool any_lost() const { return lost_.count > 0; }
  bool unacknowledged() const { return next_ != oldest_; }
  std::uint32_t window_frames() const { return hold_back_ ? kMinWindow : window_; }
  /// While on, new frames leave as if the window were the smallest.
  void hold_back(bool on) { hold_back_ = on; }
  Nanoseconds smoothed_round_trip() const { return round_trip_; }
  std::uint64_t timeouts() const { return timeouts_; }
  /// Something was lost on the path, here or on the way back: for a while it counts as one that
  /// loses.
  void note_loss() { lossy_until_ = transmissions_ + kLossMemoryFrames; }
  bool path_loses() const { return transmissions_ < lossy_until_; }
  /// Whether `sequence` is on its way.
  bool flying(std::uint32_t sequence) {
    return sequence - oldest_ < next_ - oldest_ && slot_of(sequence).state == State::flying;
  }

 private:
  static constexpr std::uint32_t kNone = UINT32_MAX;
  static constexpr std::uint32_t kMinWindow = 4;
  static constexpr std::uint64_t kReorderTolerance = 3;
  static constexpr std::uint32_t kMaxBackoff = 16;
  static constexpr std::uint64_t kLossMemoryFrames = 1024;
  static constexpr Nanoseconds kReorderTime{50'000};

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
  /// Slots linked in order of transmission (flying) or of their numbers (lost).
  struct List {
    std::uint32_t head = kNone;
    std::uint32_t tail = kNone;
    std::uint32_t count = 0;
  };
  /// What one acknowledgement proves: the latest transmissions that it covers.
  struct Evidence {
    Slot* latest = nullptr;         ///< among frames sent once
    Slot* latest_resent = nullptr;  ///< among frames sent again
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
  void begin_loss_epoch();
  void detect_losses(Instant now);
  void settle(std::uint32_t at, Evidence& evidence);
  void finish_acknowledge(Instant now, const RcFrame& frame, const Evidence& evidence);
  void sample_round_trip(Nanoseconds sample);
  Nanoseconds timeout() const;
  Nanoseconds reorder_time() const;

  SendWindowLimits limits_;
  std::uint32_t max_window_;
  std::uint32_t mask_ = 0;
  std::vector<Slot> slots_;  ///< allocated with the first frame; a power of two
  std::uint32_t oldest_;
  std::uint32_t next_;
  List flying_;
  List lost_;

  std::uint32_t window_;  ///< frames that may be on their way
  bool hold_back_ = false;
  std::uint32_t growth_ = 0;     ///< frames acknowledged since the window last grew
  std::uint32_t allowance_ = 0;  ///< retransmissions that may leave although the window is full
  std::uint64_t transmissions_ = 0;
  std::uint64_t lossy_until_ = 0;  ///< transmissions before the last loss is forgotten
  std::uint64_t epoch_end_ = 0;    ///< losses of transmissions before this belong to the last epoch
  std::uint64_t latest_arrived_ = 0;  ///< transmission, counted from 1; 0: none

  Nanoseconds round_trip_{0};
  Nanoseconds variation_{0};
  std::uint32_t backoff_ = 0;
  Instant last_progress_{INT64_MIN};  ///< an acknowledgement of something new, or a time-out
  std::uint64_t timeouts_ = 0;
};

template <typename Callback>
bool SendWindow::acknowledge(Instant now, const RcFrame& frame, Callback&& acknowledged_frame) {
  const std::uint32_t sent = next_ - oldest_;
  const std::uint32_t cumulative = frame.acknowledged - oldest_;
  // An acknowledgement that was overtaken by a later one lies behind; its words may still tell
  // news.
  const bool stale = static_cast<std::int32_t>(cumulative) < 0;
  if (!stale && cumulative > sent) return false;
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
  if (evidence.frames > 0) finish_acknowledge(now, frame, evidence);
  return true;
}

}  // namespace tutti::device::rc
