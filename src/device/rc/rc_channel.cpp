#include "device/rc/rc_channel.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "base/circular.hpp"
#include "base/error.hpp"

namespace tutti::device::rc {
namespace {

constexpr std::size_t kFirstWorks = 32;
constexpr int kKeepalivesPerTimeout = 5;

SendWindowLimits window_limits(const RcConfig& config) {
  SendWindowLimits limits;
  limits.initial_sequence = config.initial_sequence;
  limits.max_frames = config.window_bytes / config.max_frame_bytes;
  limits.timeout.min = config.rto_min;
  limits.timeout.first_max = std::clamp(config.rto_first_max, config.rto_min, config.rto_max);
  limits.timeout.max = config.rto_max;
  return limits;
}

}  // namespace

Status check(const RcConfig& config) {
  if (config.max_frame_bytes < kMinFrameBytes) {
    return failure(Code::invalid_argument,
                   "reliable frames of {} bytes are too short: use {} or more",
                   config.max_frame_bytes, kMinFrameBytes);
  }
  if (config.rto_min.count() <= 0 || config.rto_max < config.rto_min) {
    return failure(Code::invalid_argument,
                   "retransmission timeouts of {} to {} ns are invalid: use 0 < minimum <= maximum",
                   config.rto_min.count(), config.rto_max.count());
  }
  if (config.ack_delay.count() < 0 || config.ack_delay >= config.rto_min) {
    return failure(Code::invalid_argument,
                   "an ACK delay of {} ns is not below the retransmission timeout: use less than "
                   "{} ns",
                   config.ack_delay.count(), config.rto_min.count());
  }
  if (config.peer_timeout <= config.rto_min) {
    return failure(Code::invalid_argument,
                   "a peer timeout of {} ns leaves no time to retransmit: use more than {} ns",
                   config.peer_timeout.count(), config.rto_min.count());
  }
  const std::uint32_t most_requests = std::uint32_t{1} << 24;
  if (config.max_queued_requests == 0 || config.max_queued_requests > most_requests) {
    return failure(Code::invalid_argument, "a queue of {} requests is invalid: use 1 to {}",
                   config.max_queued_requests, most_requests);
  }
  return {};
}

RcChannel::RcChannel(Rank peer, const RcConfig& config, MemoryTable& memory, RcCounters& counters)
    : peer_(peer),
      config_(config),
      memory_(memory),
      counters_(counters),
      inline_buffers_(kInlineSendBytes, config.max_queued_requests),
      send_(window_limits(config)),
      receive_(config.initial_sequence),
      unexpected_buffers_(config.max_frame_bytes, config.unexpected_buffers) {}

// ---- own requests -------------------------------------------------------------------------------

Status RcChannel::post(Instant now, const WorkRequest& request) {
  if (failed_) {
    return failure(Code::peer_failed, "the connection to rank {} is lost: abort the communicator",
                   index(peer_));
  }
  if (request.opcode > Opcode::read) {
    return failure(Code::invalid_argument, "opcode {} to rank {} cannot be posted",
                   static_cast<int>(request.opcode), index(peer_));
  }
  const bool is_send = request.opcode == Opcode::send;
  if (is_send && request.local.size() > config_.max_message_bytes) {
    return failure(Code::invalid_argument,
                   "a message of {} bytes to rank {} exceeds {}: use a WRITE", request.local.size(),
                   index(peer_), config_.max_message_bytes);
  }
  if (end_work_ - first_work_ >= config_.max_queued_requests) {
    return failure(Code::resource_exhausted,
                   "{} requests to rank {} are queued: await completions before posting more",
                   config_.max_queued_requests, index(peer_));
  }
  const bool was_attentive = attentive();
  if (end_work_ - first_work_ == works_.size()) grow_works();
  Work& added = work(end_work_++);
  added = Work{};
  added.request = request;
  if (request.opcode == Opcode::read) added.answer_bytes = request.local.size();
  if (is_send && !request.local.empty() && request.local.size() <= kInlineSendBytes) {
    added.inline_copy = inline_buffers_.take();  // never null: there is one for each request
    std::memcpy(added.inline_copy, request.local.data(), request.local.size());
    added.request.local = {added.inline_copy, request.local.size()};
  }
  awaited_works_ += awaited(request) ? 1 : 0;
  begin_attention(now, was_attentive);
  return {};
}

/// False for a SEND, whose poster does not wait for its arrival.
bool RcChannel::awaited(const WorkRequest& request) {
  return request.opcode == Opcode::read || (request.opcode != Opcode::send && request.signaled);
}

void RcChannel::grow_works() {
  std::vector<Work> grown(works_.empty() ? kFirstWorks : 2 * works_.size());
  for (std::uint32_t operation = first_work_; operation != end_work_; ++operation) {
    grown[operation & (grown.size() - 1)] = work(operation);
  }
  works_.swap(grown);
}

RcChannel::Work* RcChannel::open_work(std::uint32_t operation) {
  if (operation - first_work_ >= end_work_ - first_work_) return nullptr;
  return &work(operation);
}

bool RcChannel::finished(const Work& done) const {
  if (!done.all_cut || done.frames > 0) return false;
  return done.request.opcode != Opcode::read || done.answered;
}

bool RcChannel::held_up() const {
  const bool frames_wait =
      next_work_ != end_work_ || first_response_ != end_response_ || send_.any_lost();
  return frames_wait && !failed_;
}

bool RcChannel::awaits_peer() const { return awaited_works_ > 0 || held_up(); }

void RcChannel::complete_finished(CompletionSink& sink) {
  while (first_work_ != next_work_ && finished(work(first_work_))) {
    complete_head(work(first_work_).code, sink);
  }
}

void RcChannel::complete_head(Code code, CompletionSink& sink) {
  Work& done = work(first_work_++);
  if (done.inline_copy != nullptr) inline_buffers_.give_back(done.inline_copy);
  const WorkRequest& request = done.request;
  awaited_works_ -= awaited(request) ? 1 : 0;
  if (code == Code::ok && !request.signaled && request.opcode != Opcode::read) return;
  Completion completion;
  completion.opcode = request.opcode;
  completion.code = code;
  completion.peer = peer_;
  completion.work_id = request.work_id;
  // Refused by a peer whose answers of full length do not arrive here.
  if (done.code == Code::peer_failed) {
    completion.undelivered_bytes = config_.overhead_bytes + config_.max_frame_bytes;
  }
  sink.push(completion);
}

void RcChannel::finish_read(Work& read) {
  read.answered = true;
  --open_reads_;
  acknowledge_at_once_ = true;
}

void RcChannel::abandon() {
  for (std::uint32_t operation = first_work_; operation != end_work_; ++operation) {
    const Work& one = work(operation);
    if (one.inline_copy == nullptr && !one.request.local.empty()) abandon(operation);
  }
}

// Frames of failed work are sent empty, because the peer needs only their sequence numbers. The
// answer to a READ that is marked as answered is ignored.
void RcChannel::abandon(std::uint32_t operation) {
  Work& left = work(operation);
  if (left.code == Code::ok) left.code = Code::aborted;
  const bool begun = left.cut_bytes > 0 || left.all_cut;
  if (!begun) {
    left.request.local = {};
    left.answer_bytes = 0;
    return;
  }
  if (left.request.opcode == Opcode::read && !left.answered) finish_read(left);
  if (left.all_cut) return;
  left.all_cut = true;  // the rest of the request being cut is not sent
  ++next_work_;
}

// ---- sending ------------------------------------------------------------------------------------

bool RcChannel::may_cut_work() const {
  if (next_work_ == end_work_) return false;
  return work(next_work_).request.opcode != Opcode::read || open_reads_ < kMaxOpenReads;
}

bool RcChannel::has_new_frame() const {
  if (!send_.may_send_new()) return false;
  return ping_wanted_ || path_test_wanted_ || first_response_ != end_response_ || may_cut_work();
}

bool RcChannel::acknowledge_now(Instant now) const {
  return acknowledge_at_once_ || acknowledge_at_ <= now;
}

bool RcChannel::has_output(Instant now) const {
  if (failed_) return false;
  return tail_to_probe_ || send_.may_resend() || has_new_frame() || acknowledge_now(now) ||
         ask_wanted_;
}

bool RcChannel::next_frame(Instant now, OutgoingFrame& frame) {
  if (failed_ || !choose_frame(now, frame)) return false;
  ++counters_.frames_sent;
  counters_.bytes_sent += frame.payload.size();
  return true;
}

bool RcChannel::choose_frame(Instant now, OutgoingFrame& frame) {
  frame.repeated = false;
  const auto tail = std::exchange(tail_to_probe_, std::nullopt);
  if (tail && send_.flying(*tail)) {
    fill(*tail, frame);
    frame.repeated = true;
    ++counters_.tail_probes;
    return true;
  }
  // A data frame's cumulative number cannot describe a gap, so the ACK with the bitmap goes first.
  if (receive_.gap() && acknowledge_now(now)) {
    fill_acknowledgement(frame, false);
  } else if (send_.may_resend()) {
    const std::uint32_t sequence = send_.resend(now);
    counters_.frames_resent += send_.resent(sequence) ? 1 : 0;
    fill_sequenced(sequence, frame);
  } else if (has_new_frame()) {
    FrameRecord record;
    cut_next(record);
    fill_sequenced(send_.send_new(now, record), frame);
  } else if (acknowledge_now(now) || ask_wanted_) {
    // Behind the retransmission, so that the ACK shows whether that has arrived.
    fill_acknowledgement(frame, std::exchange(ask_wanted_, false));
  } else {
    return false;
  }
  return true;
}

// The loss of a last frame shows only by timeout, because nothing follows it. On a lossy path it is
// therefore sent twice (tail probe, RFC 8985).
void RcChannel::fill_sequenced(std::uint32_t sequence, OutgoingFrame& frame) {
  fill(sequence, frame);
  if (sequence == send_.oldest()) {
    oldest_frame_bytes_ = static_cast<std::uint32_t>(frame.size());
  }
  if (!send_.path_loses()) return;
  if (!held_up() && frame.size() <= kRepeatedTailBytes) tail_to_probe_ = sequence;
}

void RcChannel::take_back(const OutgoingFrame& frame) {
  if (failed_) return;
  acknowledge_at_once_ = true;  // the ACK in the frame was not sent
  if (frame.repeated) {
    --counters_.tail_probes;
  } else if (!frame.sequenced) {
    --counters_.acks_sent;
  } else if (send_.take_back(frame.sequence)) {
    counters_.frames_resent -= send_.resent(frame.sequence) ? 1 : 0;
  } else {
    return;  // already taken back
  }
  --counters_.frames_sent;
  counters_.bytes_sent -= frame.payload.size();
}

void RcChannel::cut_next(FrameRecord& record) {
  const bool response = first_response_ != end_response_;
  const bool own = may_cut_work();
  // Alternate, so that neither a peer that reads much nor a queue of own work starves the other.
  response_turn_ = response && (response_turn_ || !own);
  if (response_turn_) {
    cut_response(record);
    response_turn_ = false;
  } else if (own) {
    cut_work(record);
    response_turn_ = true;
  } else {
    record.kind = RcKind::empty;
    if (std::exchange(path_test_wanted_, false)) {
      record.bytes = config_.max_frame_bytes - static_cast<std::uint32_t>(kRcCommonBytes);
      padding_.resize(record.bytes);
    }
    ++counters_.pings_sent;
  }
  ping_wanted_ = false;  // any frame that must be acknowledged serves as a ping
}

void RcChannel::cut_response(FrameRecord& record) {
  Response& response = responses_[first_response_ % kResponseSlots];
  record.kind = response.kind;
  record.operation = response.operation;
  if (response.kind == RcKind::read_response) {
    const std::uint64_t room = config_.max_frame_bytes - kRcReadResponseHeaderBytes;
    record.key = response.key;
    record.offset = response.offset;
    record.position = response.position;
    record.bytes = static_cast<std::uint32_t>(std::min(room, response.length - response.position));
    response.position += record.bytes;
    const bool gone =
        undelivered_ ||
        (response.length > 0 && !memory_.resolve(response.key, response.offset, response.length));
    if (gone) record.kind = RcKind::refused;
    if (!gone && response.position < response.length) return;
  }
  ++first_response_;
}

void RcChannel::cut_work(FrameRecord& record) {
  Work& cut = work(next_work_);
  record.operation = next_work_;
  if (cut.request.opcode == Opcode::read) {
    cut_reads(record);
    return;
  }
  cut_data(cut, record);
  if (cut.all_cut) ++next_work_;
}

void RcChannel::cut_data(Work& cut, FrameRecord& record) {
  const std::uint64_t left = cut.request.local.size() - cut.cut_bytes;
  std::uint64_t bytes = 0;
  if (cut.request.opcode == Opcode::send) {
    record.kind = RcKind::send;
    bytes = std::min<std::uint64_t>(left, config_.max_frame_bytes - kRcSendHeaderBytes);
  } else if (cut.request.opcode == Opcode::write) {
    record.kind = RcKind::write;
    bytes = std::min<std::uint64_t>(left, config_.max_frame_bytes - kRcWriteHeaderBytes);
  } else if (left <= config_.max_frame_bytes - kRcWriteImmediateHeaderBytes) {
    record.kind = RcKind::write_immediate;
    bytes = left;
  } else {
    // The last frame keeps at least one byte, because an empty frame would not reveal a bad key.
    record.kind = RcKind::write;
    bytes = std::min<std::uint64_t>(left - 1, config_.max_frame_bytes - kRcWriteHeaderBytes);
  }
  record.position = cut.cut_bytes;
  record.bytes = static_cast<std::uint32_t>(bytes);
  cut.cut_bytes += bytes;
  ++cut.frames;
  const bool last_kind =
      cut.request.opcode != Opcode::write_immediate || record.kind == RcKind::write_immediate;
  cut.all_cut = last_kind && cut.cut_bytes == cut.request.local.size();
}

void RcChannel::cut_reads(FrameRecord& record) {
  record.kind = RcKind::read_request;
  while (record.ranges < kRcMaxReadRanges && may_cut_work()) {
    Work& read = work(next_work_);
    if (read.request.opcode != Opcode::read) return;
    read.frames = 1;
    read.all_cut = true;
    ++open_reads_;
    ++next_work_;
    ++record.ranges;
  }
}

RcFrame RcChannel::new_frame(RcKind kind) const {
  RcFrame frame;
  frame.kind = kind;
  frame.source_incarnation = config_.own_incarnation;
  frame.destination_incarnation = config_.peer_incarnation;
  frame.acknowledged = receive_.expected();
  frame.answers_resent = newest_was_resent_;
  return frame;
}

void RcChannel::fill(std::uint32_t sequence, OutgoingFrame& frame) {
  FrameRecord& record = send_.record(sequence);
  RcFrame out = new_frame(record.kind);
  out.sequence = sequence;
  frame.sequence = sequence;
  frame.sequenced = true;
  frame.payload = {};
  switch (record.kind) {
    case RcKind::send:
    case RcKind::write:
    case RcKind::write_immediate:
      fill_work(record, out, frame);
      break;
    case RcKind::read_response:
      fill_response(record, out, frame);
      break;
    case RcKind::read_request:
      out.count = record.ranges;
      break;
    case RcKind::empty:
      if (!undelivered_) frame.payload = std::span(padding_).first(record.bytes);
      break;
    case RcKind::ack:
    case RcKind::refused:
      break;
  }
  if (out.kind == RcKind::refused) {
    out.operation = record.operation;
    out.count =
        static_cast<std::uint16_t>(undelivered_ ? Code::peer_failed : Code::invalid_argument);
  }
  // The last frame asks for an ACK, because nothing else ends the receiver's ACK delay; four others
  // per window ask so that the window does not run dry. Asking more often, while the window holds
  // frames up, would make every ACK release frames that each ask for another.
  const std::uint32_t spacing = std::min(send_.window_frames() / 4, kAcknowledgeEvery);
  const bool last = !held_up();
  out.acknowledge_now = last || out.kind == RcKind::empty || ++since_ack_request_ >= spacing;
  if (out.acknowledge_now) since_ack_request_ = 0;
  out.fresh = !receive_.gap() && unacknowledged_arrivals_ > 0;
  out.resent = send_.resent(sequence);
  frame.header_bytes = encode(out, frame.header.data());
  for (std::uint32_t i = 0; out.kind == RcKind::read_request && i < record.ranges; ++i) {
    const std::uint32_t operation = record.operation + i;
    const WorkRequest& read = work(operation).request;
    encode_range({operation, read.remote_key.key, read.remote_offset, read.local.size()},
                 frame.header.data() + frame.header_bytes);
    frame.header_bytes += kRcReadRangeBytes;
  }
  if (!receive_.gap()) {  // the cumulative number in this frame says everything
    unacknowledged_arrivals_ = 0;
    acknowledge_at_once_ = false;
    acknowledge_at_ = kNever;
  }
}

void RcChannel::fill_work(const FrameRecord& record, RcFrame& out, OutgoingFrame& frame) {
  const Work& source = work(record.operation);
  if (source.code != Code::ok) {  // refused: the peer needs only its sequence number
    out.kind = RcKind::empty;
    return;
  }
  const WorkRequest& request = source.request;
  frame.payload = request.local.subspan(record.position, record.bytes);
  if (record.kind == RcKind::send) {
    out.message_bytes = static_cast<std::uint32_t>(request.local.size());
    out.offset = record.position;
    return;
  }
  out.operation = record.operation;
  out.key = request.remote_key.key;
  out.offset = request.remote_offset + record.position;
  out.remaining = request.local.size() - record.position;
  if (record.kind == RcKind::write_immediate) out.immediate = request.immediate;
}

void RcChannel::fill_response(FrameRecord& record, RcFrame& out, OutgoingFrame& frame) {
  out.operation = record.operation;
  out.offset = record.position;
  if (record.bytes == 0) return;
  const auto data = memory_.resolve(record.key, record.offset + record.position, record.bytes);
  if (data && !undelivered_) {
    frame.payload = *data;
    return;
  }
  record.kind = RcKind::refused;  // permanently, because keys never repeat
  out.kind = RcKind::refused;
  out.offset = 0;
}

void RcChannel::fill_acknowledgement(OutgoingFrame& frame, bool ask) {
  RcFrame out = new_frame(RcKind::ack);
  out.acknowledge_now = ask;
  out.fresh = unacknowledged_arrivals_ > 0;
  out.count = static_cast<std::uint16_t>(receive_.word_count());
  frame.header_bytes = encode(out, frame.header.data());
  for (std::size_t i = 0; i < out.count; ++i) {
    encode_word(receive_.word(i), frame.header.data() + frame.header_bytes);
    frame.header_bytes += kRcWordBytes;
  }
  frame.payload = {};
  frame.sequence = 0;
  frame.sequenced = false;
  ++counters_.acks_sent;
  unacknowledged_arrivals_ = 0;
  acknowledge_at_once_ = false;
  acknowledge_at_ = kNever;
}

// ---- time and liveness --------------------------------------------------------------------------

bool RcChannel::waiting() const {
  return first_work_ != end_work_ || first_response_ != end_response_ || send_.unacknowledged();
}

bool RcChannel::quiet() const {
  return failed_ || (!waiting() && !acknowledge_at_once_ && acknowledge_at_ == kNever);
}

void RcChannel::begin_attention(Instant now, bool was_attentive) {
  if (!was_attentive && attentive()) attentive_since_ = now;
}

void RcChannel::watch(bool on, Instant now) {
  const bool was_attentive = attentive();
  watched_ = on;
  begin_attention(now, was_attentive);
}

void RcChannel::on_timer(Instant now, CompletionSink& sink) {
  if (failed_) return;
  if (attentive() && now - silent_since() >= config_.peer_timeout) {
    fail(Code::peer_failed, sink);
    return;
  }
  if (!undelivered_ && send_.undelivered_at(config_.peer_timeout) <= now) report_undelivered(sink);
  if (send_.on_timer(now)) {
    ++counters_.timeouts;
    ask_wanted_ |= send_.timeouts_in_a_row() >= kAskAfterTimeouts;
  }
  const Nanoseconds keepalive = config_.peer_timeout / kKeepalivesPerTimeout;
  if (attentive() && !send_.unacknowledged() && now - silent_since() >= keepalive) {
    ping_wanted_ = true;
  }
}

void RcChannel::report_undelivered(CompletionSink& sink) {
  undelivered_ = true;
  send_.forget_timeouts();
  sink.push({.opcode = Opcode::failure,
             .code = Code::peer_failed,
             .peer = peer_,
             .undelivered_bytes = config_.overhead_bytes + oldest_frame_bytes_});
}

Instant RcChannel::next_deadline() const {
  if (failed_) return kNever;
  Instant deadline = std::min(send_.deadline(), acknowledge_at_);
  if (!undelivered_) deadline = std::min(deadline, send_.undelivered_at(config_.peer_timeout));
  if (!attentive()) return deadline;
  deadline = std::min(deadline, silent_since() + config_.peer_timeout);
  if (send_.unacknowledged() || ping_wanted_) return deadline;
  return std::min(deadline, silent_since() + config_.peer_timeout / kKeepalivesPerTimeout);
}

void RcChannel::fail(Code code, CompletionSink& sink) {
  if (failed_) return;
  failed_ = true;
  next_work_ = end_work_;
  while (first_work_ != end_work_) {
    // An operation that the peer refused keeps that code.
    const Code own = work(first_work_).code;
    complete_head(own == Code::ok ? code : own, sink);
  }
  open_reads_ = 0;
  first_response_ = end_response_;
  Completion completion;
  completion.opcode = Opcode::failure;
  completion.code = code;
  completion.peer = peer_;
  sink.push(completion);
}

}  // namespace tutti::device::rc
