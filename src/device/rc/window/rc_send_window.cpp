#include "device/rc/window/rc_send_window.hpp"

#include <algorithm>
#include <bit>

namespace tutti::device::rc {

SendWindow::SendWindow(const SendWindowLimits& limits)
    : congestion_(limits.max_frames),
      timeout_(limits.timeout),
      oldest_(limits.initial_sequence),
      next_(limits.initial_sequence) {}

std::uint32_t SendWindow::send_new(Instant now, const FrameRecord& record) {
  if (slots_.empty()) {
    // `slots_` has room for two full congestion windows, if kRcReceiveWindowFrames allows, so that
    // one missing frame does not immediately block new frames.
    slots_.resize(
        std::min<std::size_t>(std::bit_ceil(2 * congestion_.max_frames()), kRcReceiveWindowFrames));
    mask_ = static_cast<std::uint32_t>(slots_.size()) - 1;
  }
  const std::uint32_t sequence = next_++;
  if (sequence == oldest_) begin_oldest(now);
  Slot& slot = slot_of(sequence);
  slot.record = record;
  slot.resent = false;
  launch(now, sequence);
  return sequence;
}

std::uint32_t SendWindow::resend(Instant now) {
  const std::uint32_t at = lost_.head;
  Slot& slot = slots_[at];
  congestion_.on_resend(flying_.count);
  remove(lost_, at);
  slot.resent = slot.resent || !slot.taken_back;
  // `slots_` holds the frames oldest_ to oldest_ + size - 1, each at its sequence number modulo
  // size, so the index `at` determines the sequence number.
  const std::uint32_t sequence = oldest_ + ((at - oldest_) & mask_);
  if (sequence == oldest_) {
    // A transmission that was taken back was never sent, so it does not count as unsuccessful.
    deliveries_missed_ += answered_ && !slot.taken_back ? 1 : 0;
    answered_ = false;
  }
  launch(now, sequence);
  return sequence;
}

void SendWindow::begin_oldest(Instant now) {
  oldest_since_ = now;
  deliveries_missed_ = 0;
  answered_ = false;
}

void SendWindow::launch(Instant now, std::uint32_t sequence) {
  Slot& slot = slot_of(sequence);
  slot.taken_back = false;
  slot.sent_at = now;
  slot.transmission = ++transmissions_;
  append_flying(sequence & mask_);
}

bool SendWindow::take_back(std::uint32_t sequence) {
  const std::uint32_t at = sequence & mask_;
  if (!flying(sequence)) return false;
  remove(flying_, at);
  slots_[at].taken_back = true;
  append_lost(at);
  return true;
}

void SendWindow::append_flying(std::uint32_t at) {
  slots_[at].state = State::flying;
  slots_[at].previous = flying_.tail;
  slots_[at].next = kNone;
  (flying_.tail == kNone ? flying_.head : slots_[flying_.tail].next) = at;
  flying_.tail = at;
  ++flying_.count;
}

void SendWindow::append_lost(std::uint32_t at) {
  slots_[at].state = State::lost;
  // Lost frames are sorted by sequence number, because the receiver can use the oldest frame at
  // once. Losses are found nearly in this order, so the search is short.
  const std::uint32_t age = (at - oldest_) & mask_;
  std::uint32_t after = lost_.tail;
  while (after != kNone && ((after - oldest_) & mask_) > age) after = slots_[after].previous;
  const std::uint32_t before = after == kNone ? lost_.head : slots_[after].next;
  slots_[at].previous = after;
  slots_[at].next = before;
  (after == kNone ? lost_.head : slots_[after].next) = at;
  (before == kNone ? lost_.tail : slots_[before].previous) = at;
  ++lost_.count;
}

void SendWindow::remove(List& list, std::uint32_t at) {
  const Slot& slot = slots_[at];
  (slot.previous == kNone ? list.head : slots_[slot.previous].next) = slot.next;
  (slot.next == kNone ? list.tail : slots_[slot.next].previous) = slot.previous;
  --list.count;
}

void SendWindow::settle(std::uint32_t at, Evidence& evidence) {
  Slot& slot = slots_[at];
  remove(slot.state == State::flying ? flying_ : lost_, at);
  slot.state = State::acknowledged;
  ++evidence.frames;
  if (slot.taken_back) return;
  Slot*& latest = slot.resent ? evidence.latest_resent : evidence.latest;
  if (latest == nullptr || slot.transmission > latest->transmission) latest = &slot;
}

void SendWindow::finish_acknowledge(Instant now, const RcFrame& frame, const Evidence& evidence) {
  timeout_.restart();
  last_progress_ = now;
  congestion_.on_acknowledged(evidence.frames);
  const Slot* once = evidence.latest;
  const Slot* resent = evidence.latest_resent;
  if (once != nullptr) {
    // Only a `fresh` ACK measures a round trip. Any other ACK may report an old arrival whose first
    // ACK was lost, so it gives only an upper bound of the round trip.
    const bool timed = resent == nullptr || resent->transmission < once->transmission;
    const Nanoseconds took = now - once->sent_at;
    if (timed && (frame.fresh || took < timeout_.smoothed_round_trip())) timeout_.sample(took);
    latest_arrived_ = std::max(latest_arrived_, once->transmission);
  }
  // Without `answers_resent`, the ACK may answer an earlier transmission of the retransmitted
  // frame, while the last transmission is still under way. The ACK then does not show that frames
  // sent before the last transmission are lost.
  if (resent != nullptr && frame.answers_resent) {
    latest_arrived_ = std::max(latest_arrived_, resent->transmission);
  }
  detect_losses(now);
}

void SendWindow::mark_lost(std::uint32_t at) {
  congestion_.on_loss(slots_[at].transmission, transmissions_);
  send_again(at);
}

void SendWindow::send_again(std::uint32_t at) {
  remove(flying_, at);
  append_lost(at);
}

void SendWindow::detect_losses(Instant now) {
  while (flying_.head != kNone) {
    const Slot& slot = slots_[flying_.head];
    if (slot.transmission >= latest_arrived_) return;
    const bool overtaken = latest_arrived_ - slot.transmission >= kReorderTolerance;
    if (!overtaken && now - slot.sent_at < timeout_.reorder_time()) return;
    note_loss();
    mark_lost(flying_.head);
  }
}

bool SendWindow::on_timer(Instant now) {
  detect_losses(now);
  if (flying_.head == kNone || deadline() > now) return false;
  // A first timeout does not shrink the window, because a peer whose thread is not scheduled is
  // silent, too. The window shrinks at a second timeout in a row, or if the answer to the first
  // retransmission shows losses.
  if (timeout_.in_a_row() == 0) {
    send_again(timed_frame());
  } else {
    mark_lost(timed_frame());
  }
  congestion_.allow_one();
  last_progress_ = now;
  timeout_.expired();
  return true;
}

std::uint32_t SendWindow::timed_frame() const {
  // The retransmission timer runs for the oldest frame, because the receiver accepts this frame
  // even if it has no room for other frames.
  const std::uint32_t oldest = oldest_ & mask_;
  return slots_[oldest].state == State::flying ? oldest : flying_.head;
}

Instant SendWindow::deadline() const {
  if (flying_.head == kNone) return kNever;
  const Slot& slot = slots_[flying_.head];
  if (slot.transmission < latest_arrived_) return slot.sent_at + timeout_.reorder_time();
  // Frames sent together may queue behind each other for longer than a timeout, so the
  // retransmission timer restarts with each new acknowledgement.
  return std::max(slots_[timed_frame()].sent_at, last_progress_) + timeout_.current();
}

}  // namespace tutti::device::rc
