#include "device/rc/rc_channel.hpp"

#include <algorithm>
#include <utility>

#include "base/circular.hpp"
#include "base/error.hpp"

namespace tutti::device::rc {
namespace {

SendWindowLimits window_limits(const RcConfig& config, const RcPosition& begin) {
  SendWindowLimits limits;
  limits.initial_sequence = begin.next_sent;
  limits.max_frames = config.window_bytes / config.max_frame_bytes;
  limits.timeout.min = config.rto_min;
  limits.timeout.first_max = std::clamp(config.rto_first_max, config.rto_min, config.rto_max);
  limits.timeout.max = config.rto_max;
  return limits;
}

}  // namespace

Status closed_status(Rank peer) {
  return failure(Code::aborted, "rank {} has closed the communicator: send it nothing more",
                 index(peer));
}

RcChannel::RcChannel(Rank peer, const RcConfig& config, const MemoryTable& memory,
                     RcCounters& counters, const RcPosition& begin)
    : peer_(peer),
      config_(config),
      counters_(counters),
      works_(peer, config_, begin.next_work),
      responses_(config.max_frame_bytes, memory, counters),
      send_(window_limits(config, begin)),
      receiver_(peer, config_, begin.next_expected, memory, counters, works_, responses_),
      peer_timeout_(config.peer_timeout) {}

Status RcChannel::post(Instant now, const WorkRequest& request) {
  if (failed_ && released_) return closed_status(peer_);
  if (failed_) {
    return failure(Code::peer_failed, "the connection to rank {} is lost: abort the communicator",
                   index(peer_));
  }
  const bool was_attentive = attentive();
  const Status status = works_.push(request);
  if (status.ok() && !was_attentive) peer_timeout_.begin(now);
  return status;
}

// ---- receiving ----------------------------------------------------------------------------------

void RcChannel::on_frame(Instant now, std::span<const std::byte> bytes, CompletionSink& sink) {
  ++counters_.frames_received;
  const std::optional<RcFrame> frame = decode_rc(bytes);
  if (!frame) {
    ++counters_.rejected_malformed;
    return;
  }
  if (frame->source_incarnation != config_.peer_incarnation ||
      frame->destination_incarnation != config_.own_incarnation) {
    ++counters_.rejected_incarnation;
    return;
  }
  if (failed_) {
    farewell_wanted_ = !frame->gave_up;
    return;
  }
  if (frame->gave_up)
    return fail(Code::peer_failed, sink, frame->alone ? Blame::either : Blame::self);
  peer_timeout_.on_heard(now);
  if (frame->answers_question) peer_timeout_.on_answer(now);
  const auto acknowledged = [this](const FrameRecord& record) { on_acknowledged(record); };
  if (!send_.acknowledge(now, *frame, acknowledged)) {
    ++counters_.rejected_malformed;
    return;
  }
  if (frame->kind != RcKind::ack) {
    // A gap in the received frames marks the path of this side's own frames as lossy, too, because
    // this side may send too few frames to notice losses there.
    if (receiver_.on_frame(now, *frame, bytes, sink)) send_.note_loss();
  } else if (frame->acknowledge_now) {
    receiver_.ack().answer_at_once();
  }
  works_.complete(sink);
}

void RcChannel::limit_frames(std::uint32_t bytes) {
  config_.max_frame_bytes = std::min(config_.max_frame_bytes, bytes);
  responses_.limit_frames(config_.max_frame_bytes);
}

void RcChannel::abandon() {
  works_.abandon(receiver_.ack());
  given_up_end_ = send_.next();
  receiver_.release_place();
  // An owed ACK does not wait for a reply, because this rank may end before it replies.
  if (receiver_.ack().owed()) receiver_.ack().send_at_once();
  // The path test, a frame of full length, is cancelled: if it were lost, it would delay the
  // messages behind it, such as the notice of a failure.
  path_test_wanted_ = false;
  padding_.clear();
}

void RcChannel::on_acknowledged(const FrameRecord& record) {
  switch (record.kind) {
    case RcKind::send:
    case RcKind::write:
    case RcKind::write_immediate:
      works_.on_acknowledged(record.operation);
      return;
    case RcKind::read_request:
      for (std::uint32_t i = 0; i < record.ranges; ++i) {
        works_.on_acknowledged(record.operation + i);
      }
      return;
    case RcKind::atomic_request:
      works_.on_acknowledged(record.operation);
      return;
    case RcKind::read_response:
      counters_.read_bytes_served += record.bytes;
      return;
    case RcKind::ack:
    case RcKind::empty:
    case RcKind::refused:
    case RcKind::atomic_answer:
      return;
  }
}

// ---- sending ------------------------------------------------------------------------------------

Backlog RcChannel::backlog() const {
  Backlog backlog{.priority = works_.priority()};
  if (failed_) return backlog;
  backlog.frames_wait = works_.uncut() || !responses_.empty() || send_.any_lost();
  backlog.answers = !responses_.empty();
  backlog.has_work = !works_.empty();
  backlog.stores = works_.stores();
  const bool ready = works_.may_cut() || !responses_.empty() || send_.any_lost();
  backlog.window_closed = ready && !send_.may_resend() && !send_.may_send_new();
  return backlog;
}

void RcChannel::hold_back(const std::optional<Allowance>& allowance) {
  if (!allowance) return send_.end_hold_back();
  send_.hold_back(allowance->least_frames,
                  static_cast<std::uint32_t>(allowance->more_bytes / config_.max_frame_bytes));
}

bool RcChannel::awaits_peer() const { return works_.awaited() || backlog().frames_wait; }

bool RcChannel::has_new_frame() const {
  if (!send_.may_send_new()) return false;
  return peer_timeout_.ping_wanted() || path_test_wanted_ || !responses_.empty() ||
         works_.may_cut();
}

bool RcChannel::has_output(Instant now) const {
  if (failed_) return farewell_wanted_;
  return tail_to_probe_ || send_.may_resend() || has_new_frame() || receiver_.ack().due(now) ||
         ask_wanted_;
}

bool RcChannel::next_frame(Instant now, OutgoingFrame& frame) {
  frame.repeated = false;
  if (failed_) {
    if (!std::exchange(farewell_wanted_, false)) return false;
    fill_acknowledgement(frame, false);
  } else if (!choose_frame(now, frame)) {
    return false;
  }
  ++counters_.frames_sent;
  counters_.bytes_sent += frame.payload.size();
  return true;
}

bool RcChannel::choose_frame(Instant now, OutgoingFrame& frame) {
  const auto tail = std::exchange(tail_to_probe_, std::nullopt);
  if (tail && send_.flying(*tail)) {
    fill(*tail, frame);
    frame.repeated = true;
    ++counters_.tail_probes;
    return true;
  }
  const DelayedAck& ack = receiver_.ack();
  // A data frame acknowledges only by a cumulative number, which cannot describe a gap in the
  // received frames. An ack frame, which has a bitmap, is therefore sent before data.
  if (receiver_.window().gap() && ack.due(now)) {
    fill_acknowledgement(frame, false);
  } else if (send_.may_resend()) {
    const std::uint32_t sequence = send_.resend(now);
    peer_timeout_.on_asked(now);
    counters_.frames_resent += send_.resent(sequence) ? 1 : 0;
    fill_sequenced(sequence, frame);
  } else if (has_new_frame()) {
    FrameRecord record;
    cut_next(record);
    peer_timeout_.on_asked(now);
    receiver_.ack().on_new_frame(now);
    fill_sequenced(send_.send_new(now, record), frame);
  } else if (ack.due(now) || ask_wanted_) {
    // An ack frame that requests an ACK is sent only after all retransmissions. The ACK then shows
    // whether the retransmissions have arrived.
    fill_acknowledgement(frame, std::exchange(ask_wanted_, false));
  } else {
    return false;
  }
  return true;
}

// The loss of a last frame is detected only by timeout, because no frame follows it. On a lossy
// path the last frame is therefore sent twice (tail probe, RFC 8985).
void RcChannel::fill_sequenced(std::uint32_t sequence, OutgoingFrame& frame) {
  fill(sequence, frame);
  if (sequence == send_.oldest()) {
    oldest_frame_bytes_ = static_cast<std::uint32_t>(frame.size());
  }
  if (!send_.path_loses()) return;
  if (!backlog().frames_wait && frame.size() <= kRepeatedTailBytes) tail_to_probe_ = sequence;
}

void RcChannel::take_back(const OutgoingFrame& frame) {
  if (failed_) return;
  // The ACK, the answer and the question in the unsent frame are still owed.
  receiver_.ack().send_at_once();
  if (frame.answers) receiver_.ack().answer_at_once();
  ask_wanted_ |= frame.asks;
  if (frame.repeated) {
    --counters_.tail_probes;
  } else if (!frame.sequenced) {
    --counters_.acks_sent;
  } else if (send_.take_back(frame.sequence)) {
    counters_.frames_resent -= send_.resent(frame.sequence) ? 1 : 0;
  } else {
    return;  // the frame was taken back earlier
  }
  --counters_.frames_sent;
  counters_.bytes_sent -= frame.payload.size();
}

void RcChannel::cut_next(FrameRecord& record) {
  const bool response = !responses_.empty();
  const bool own = works_.may_cut();
  // Answers and this rank's own work take turns, so that neither starves the other.
  response_turn_ = response && (response_turn_ || !own);
  if (response_turn_) {
    responses_.cut(undelivered_, record);
    response_turn_ = false;
  } else if (own) {
    works_.cut(record);
    response_turn_ = true;
  } else {
    record.kind = RcKind::empty;
    if (std::exchange(path_test_wanted_, false)) {
      record.bytes = config_.max_frame_bytes - static_cast<std::uint32_t>(kRcCommonBytes);
      padding_.resize(record.bytes);
    }
    ++counters_.pings_sent;
  }
}

RcFrame RcChannel::new_frame(RcKind kind) const {
  RcFrame frame;
  frame.kind = kind;
  frame.source_incarnation = config_.own_incarnation;
  frame.destination_incarnation = config_.peer_incarnation;
  frame.acknowledged = receiver_.window().expected();
  frame.answers_resent = receiver_.newest_was_resent();
  frame.answers_question = receiver_.ack().answers_question();
  return frame;
}

void RcChannel::fill(std::uint32_t sequence, OutgoingFrame& frame) {
  FrameRecord& record = send_.record(sequence);
  RcFrame out = new_frame(record.kind);
  out.sequence = sequence;
  frame.sequence = sequence;
  frame.sequenced = true;
  frame.asks = false;
  frame.answers = out.answers_question;
  frame.payload = {};
  switch (record.kind) {
    case RcKind::send:
    case RcKind::write:
    case RcKind::write_immediate:
    case RcKind::read_request:
    case RcKind::atomic_request:
      works_.fill(record, out, frame);
      break;
    case RcKind::read_response:
    case RcKind::refused:
    case RcKind::atomic_answer:
      responses_.fill(undelivered_, record, out, frame);
      break;
    case RcKind::empty:
      if (!undelivered_ && record.bytes <= padding_.size())
        frame.payload = std::span(padding_).first(record.bytes);
      break;
    case RcKind::ack:
      break;
  }
  // A frame of given-up work is sent empty. It states how many of the frames after it are given up,
  // too: the peer may have received those already and must ignore them, because no message may be
  // delivered after a missing one.
  const bool given_up = out.kind == RcKind::empty && record.kind != RcKind::empty;
  if (given_up && given_up_end_ && circular_before(sequence, *given_up_end_))
    out.count = static_cast<std::uint16_t>(*given_up_end_ - sequence - 1);
  // The last frame requests an ACK, because nothing else ends the receiver's ACK delay. At least
  // four frames per window request an ACK, too, so that the window stays open without an ACK for
  // every frame.
  const std::uint32_t spacing = std::min(send_.window_frames() / 4, DelayedAck::kEvery);
  const bool last = !backlog().frames_wait;
  out.acknowledge_now = last || out.kind == RcKind::empty || ++since_ack_request_ >= spacing;
  if (out.acknowledge_now) since_ack_request_ = 0;
  const bool gap = receiver_.window().gap();
  out.fresh = !gap && receiver_.ack().reports_arrival_at_once();
  out.resent = frame.resent = send_.resent(sequence);
  frame.header_bytes = encode(out, frame.header.data());
  if (out.kind == RcKind::read_request) works_.add_ranges(record, frame);
  // Without a gap in the received frames, the cumulative number in this frame acknowledges all of
  // them, so no further ACK is owed.
  if (!gap) receiver_.ack().on_sent();
}

void RcChannel::fill_acknowledgement(OutgoingFrame& frame, bool ask) {
  const ReceiveWindow& window = receiver_.window();
  RcFrame out = new_frame(RcKind::ack);
  out.acknowledge_now = ask;
  out.gave_up = failed_ && !released_;
  out.alone = out.gave_up && blame_ == Blame::either;
  out.fresh = receiver_.ack().reports_arrival_at_once();
  out.count = static_cast<std::uint16_t>(window.word_count());
  frame.header_bytes = encode(out, frame.header.data());
  for (std::size_t i = 0; i < out.count; ++i) {
    encode_word(window.word(i), frame.header.data() + frame.header_bytes);
    frame.header_bytes += kRcWordBytes;
  }
  frame.payload = {};
  frame.sequence = 0;
  frame.sequenced = frame.resent = false;
  frame.asks = ask;
  frame.answers = out.answers_question;
  ++counters_.acks_sent;
  receiver_.ack().on_sent();
}

// ---- time and liveness --------------------------------------------------------------------------

bool RcChannel::waiting() const {
  if (released_) return works_.awaited();
  return !works_.empty() || !responses_.empty() || send_.unacknowledged();
}

bool RcChannel::asks(Instant now) const {
  if (failed_) return false;
  if (released_) return works_.awaited();
  return !works_.empty() || send_.unacknowledged() || (watched_ && peer_timeout_.ping_at() <= now);
}

std::optional<RcPosition> RcChannel::resting_position() const {
  // A connection that waits for an answer of its peer stays open, because the stored position of a
  // closed connection does not contain the start of the peer timeout.
  const bool asks = path_test_wanted_ || ask_wanted_ || peer_timeout_.ping_wanted() ||
                    (attentive() && peer_timeout_.awaits_answer());
  const bool given_up = failed_ || undelivered_ || asks || !receiver_.between_operations();
  if (!quiet() || (given_up && !(failed_ && released_))) return std::nullopt;
  return RcPosition{send_.next(), receiver_.window().expected(), works_.end()};
}

bool RcChannel::quiet() const { return failed_ || (!waiting() && !receiver_.ack().owed()); }

void RcChannel::watch(bool on, Instant now) {
  if (on && !attentive()) peer_timeout_.begin(now);
  watched_ = on;
}

bool RcChannel::on_timer(Instant now, CompletionSink& sink, bool alone) {
  if (failed_) return false;
  // A peer that needs nothing more (`release`) and answers no retransmission counts as gone.
  const bool gone = released_ && send_.timeouts_in_a_row() >= kAskAfterTimeouts;
  if (gone || (attentive() && peer_timeout_.expired(now))) {
    fail(Code::peer_failed, sink, alone ? Blame::either : Blame::peer);
    return false;
  }
  if (!undelivered_ && !released_ && send_.undelivered_at(config_.peer_timeout) <= now) {
    undelivered_ = true;
    send_.forget_timeouts();
    sink.push({.opcode = Opcode::failure,
               .code = Code::peer_failed,
               .peer = peer_,
               .undelivered_bytes = config_.overhead_bytes + oldest_frame_bytes_});
  }
  if (send_.on_timer(now)) {
    ++counters_.timeouts;
    ask_wanted_ |= send_.timeouts_in_a_row() >= kAskAfterTimeouts;
  }
  if (!attentive()) return false;
  if (!send_.unacknowledged()) peer_timeout_.on_timer(now);
  return peer_timeout_.doubts(now);
}

Instant RcChannel::next_deadline() const {
  if (failed_) return kNever;
  Instant deadline = std::min(send_.deadline(), receiver_.ack().due_at());
  if (!undelivered_ && !released_)
    deadline = std::min(deadline, send_.undelivered_at(config_.peer_timeout));
  if (!attentive()) return deadline;
  deadline = std::min({deadline, peer_timeout_.expires_at(), peer_timeout_.doubt_at()});
  if (send_.unacknowledged() || peer_timeout_.ping_wanted()) return deadline;
  return std::min(deadline, peer_timeout_.ping_at());
}

void RcChannel::fail(Code code, CompletionSink& sink, Blame blame) {
  if (failed_) return;
  failed_ = true;
  blame_ = blame;
  works_.fail(released_ ? Code::aborted : code, sink, blame);
  responses_.clear();
  if (released_) return;
  Completion completion;
  completion.opcode = Opcode::failure;
  completion.code = code;
  completion.peer = peer_;
  completion.blame = blame;
  sink.push(completion);
}

}  // namespace tutti::device::rc
