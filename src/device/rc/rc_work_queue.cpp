#include "device/rc/rc_work_queue.hpp"

#include <algorithm>
#include <cstring>

#include "base/error.hpp"

namespace tutti::device::rc {
namespace {

constexpr std::size_t kFirstWorks = 32;

}  // namespace

Status WorkQueue::push(const WorkRequest& request) {
  if (request.opcode > Opcode::fetch_add) {
    return failure(Code::invalid_argument,
                   "opcode {} to rank {} cannot be posted: use send, write, write_immediate, read, "
                   "compare_swap or fetch_add",
                   static_cast<int>(request.opcode), index(peer_));
  }
  if (is_atomic(request.opcode)) {
    if (Status status = check_atomic(request); !status) return status;
  }
  const bool is_send = request.opcode == Opcode::send;
  if (is_send && request.local.size() > config_.max_message_bytes) {
    return failure(
        Code::invalid_argument,
        "a message of {} bytes to rank {} exceeds the limit of {} bytes for a SEND: use a WRITE",
        request.local.size(), index(peer_), config_.max_message_bytes);
  }
  if (end_ - first_ >= config_.max_queued_requests) {
    return failure(
        Code::resource_exhausted,
        "the limit of {} work requests to rank {} is reached: await completions before posting "
        "more",
        config_.max_queued_requests, index(peer_));
  }
  if (end_ - first_ == works_.size()) grow();
  Work added;
  added.request = request;
  if (is_answered(request.opcode)) added.answer_bytes = request.local.size();
  if (is_send && !request.local.empty() && request.local.size() <= kInlineSendBytes) {
    // `take` never returns null, because the pool has one buffer for each request that the queue
    // can hold.
    added.inline_copy = inline_buffers_.take();
    std::memcpy(added.inline_copy, request.local.data(), request.local.size());
    added.request.local = {added.inline_copy, request.local.size()};
  }
  work(end_++) = added;  // an exception before this line leaves the queue unchanged
  awaited_ += awaited(request) ? 1 : 0;
  stores_ += stores(request) ? 1 : 0;
  ++uncut_of(request);
  return {};
}

/// True if the poster may be waiting for the completion of the request: always for a READ or
/// atomic, for a WRITE if it is signaled, and never for a SEND.
bool WorkQueue::awaited(const WorkRequest& request) {
  return is_answered(request.opcode) || (request.opcode != Opcode::send && request.signaled);
}

void WorkQueue::grow() {
  std::vector<Work> grown(works_.empty() ? kFirstWorks : 2 * works_.size());
  for (std::uint32_t operation = first_; operation != end_; ++operation) {
    grown[operation & (grown.size() - 1)] = work(operation);
  }
  works_.swap(grown);
}

void WorkQueue::cut(FrameRecord& record) {
  Work& cut = work(next_);
  record.operation = next_;
  if (cut.request.opcode == Opcode::read) {
    cut_reads(record);
    return;
  }
  if (is_atomic(cut.request.opcode)) {
    record.kind = RcKind::atomic_request;
    ask(cut);
    return;
  }
  cut_data(cut, record);
  if (cut.all_cut) pass_next();
}

void WorkQueue::pass_next() { --uncut_of(work(next_++).request); }

void WorkQueue::cut_data(Work& cut, FrameRecord& record) {
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
    // The write_immediate frame, which comes last, keeps at least one byte: the key of a frame
    // without data is not checked, so a bad key would go unnoticed.
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

void WorkQueue::cut_reads(FrameRecord& record) {
  record.kind = RcKind::read_request;
  while (record.ranges < kRcMaxReadRanges && may_cut()) {
    Work& read = work(next_);
    if (read.request.opcode != Opcode::read) return;
    ask(read);
    ++record.ranges;
  }
}

/// Records that the next work, a READ or atomic, goes into a request frame as a whole.
void WorkQueue::ask(Work& asked) {
  asked.frames = 1;
  asked.all_cut = true;
  // The frame of abandoned work is empty and has no answer.
  asked.answered = asked.code != Code::ok;
  if (!asked.answered) ++open_reads_;
  pass_next();
}

void WorkQueue::fill(const FrameRecord& record, RcFrame& out, OutgoingFrame& frame) const {
  if (record.kind == RcKind::read_request) {
    bool wanted = false;
    for (std::uint32_t i = 0; i < record.ranges; ++i)
      wanted |= work(record.operation + i).code == Code::ok;
    if (!wanted) out.kind = RcKind::empty;
    out.count = wanted ? record.ranges : std::uint16_t{0};
    return;
  }
  const Work& source = work(record.operation);
  // A frame of failed work is sent empty, because the peer needs only its sequence number.
  if (source.code != Code::ok) {
    out.kind = RcKind::empty;
    return;
  }
  const WorkRequest& request = source.request;
  if (record.kind == RcKind::atomic_request) {
    out.count = static_cast<std::uint16_t>(
        request.opcode == Opcode::compare_swap ? AtomicKind::compare_swap : AtomicKind::fetch_add);
    out.operation = record.operation;
    out.key = request.remote_key.key;
    out.offset = request.remote_offset;
    out.atomic = request.atomic;
    return;
  }
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
  out.continues = record.position > 0;
  if (record.kind == RcKind::write_immediate) out.immediate = request.immediate;
}

void WorkQueue::add_ranges(const FrameRecord& record, OutgoingFrame& frame) const {
  for (std::uint32_t i = 0; i < record.ranges; ++i) {
    const std::uint32_t operation = record.operation + i;
    const WorkRequest& read = work(operation).request;
    encode_range({operation, read.remote_key.key, read.remote_offset, read.local.size()},
                 frame.header.data() + frame.header_bytes);
    frame.header_bytes += kRcReadRangeBytes;
  }
}

WorkQueue::Work* WorkQueue::open_work(std::uint32_t operation) {
  if (operation - first_ >= end_ - first_) return nullptr;
  return &work(operation);
}

void WorkQueue::accept_answer(const RcFrame& frame, DelayedAck& ack) {
  if (frame.kind == RcKind::read_response)
    return place_answer(frame, frame.offset, frame.payload, ack);
  place_answer(frame, 0, std::as_bytes(std::span(&frame.immediate, 1)), ack);
}

void WorkQueue::place_answer(const RcFrame& frame, std::uint64_t offset,
                             std::span<const std::byte> bytes, DelayedAck& ack) {
  Work* asked = open_work(frame.operation);
  if (asked == nullptr || !asked->all_cut || asked->answered) return;
  const bool matches = frame.kind == RcKind::read_response ? asked->request.opcode == Opcode::read
                                                           : is_atomic(asked->request.opcode);
  const std::span<std::byte> local = asked->request.local;
  if (!matches || offset > local.size() || bytes.size() > local.size() - offset) return;
  if (!bytes.empty()) std::memcpy(local.data() + offset, bytes.data(), bytes.size());
  asked->answer_bytes -= std::min<std::uint64_t>(asked->answer_bytes, bytes.size());
  if (asked->answer_bytes == 0) finish_read(*asked, ack);
}

void WorkQueue::accept_refusal(const RcFrame& frame, DelayedAck& ack) {
  Work* refused = open_work(frame.operation);
  if (refused == nullptr || refused->request.opcode == Opcode::send) return;
  if (is_answered(refused->request.opcode)) {
    if (!refused->all_cut || refused->answered) return;
    refused->code = refusal_code(frame);
    finish_read(*refused, ack);
    return;
  }
  // A refusal is ignored if the work was not sent yet or all its frames are acknowledged.
  if (refused->frames == 0) return;
  refused->code = refusal_code(frame);
  end_cutting(*refused);
}

void WorkQueue::finish_read(Work& read, DelayedAck& ack) {
  read.answered = true;
  --open_reads_;
  ack.send_at_once();
}

// Ends the cutting of work into frames: the rest of the work is not sent.
void WorkQueue::end_cutting(Work& cut) {
  if (cut.all_cut) return;
  cut.all_cut = true;
  pass_next();
}

void WorkQueue::complete_head(Code code, CompletionSink& sink, Blame blame) {
  Work& done = work(first_++);
  if (done.inline_copy != nullptr) inline_buffers_.give_back(done.inline_copy);
  const WorkRequest& request = done.request;
  awaited_ -= awaited(request) ? 1 : 0;
  stores_ -= stores(request) ? 1 : 0;
  if (code == Code::ok && !request.signaled && !is_answered(request.opcode)) return;
  Completion completion;
  completion.opcode = request.opcode;
  completion.code = code;
  completion.peer = peer_;
  completion.work_id = request.work_id;
  completion.blame = blame;
  // Code::peer_failed means that the peer refused the READ, because frames of full length from the
  // peer do not reach this rank.
  if (done.code == Code::peer_failed) {
    completion.undelivered_bytes = config_.overhead_bytes + config_.max_frame_bytes;
  }
  sink.push(completion);
}

void WorkQueue::fail(Code code, CompletionSink& sink, Blame blame) {
  next_ = end_;
  uncut_ = {};
  while (first_ != end_) {
    // Work that the peer refused completes with the code of the refusal.
    const Code own = work(first_).code;
    complete_head(own == Code::ok ? code : own, sink, blame);
  }
  open_reads_ = 0;
}

void WorkQueue::abandon(DelayedAck& ack) {
  for (std::uint32_t operation = first_; operation != end_; ++operation) {
    abandon(work(operation), ack);
  }
}

// Frames of abandoned work are sent empty, because the peer needs only their sequence numbers. If a
// part of the work is not sent yet, one empty frame follows, so that the peer does not wait for
// that part.
void WorkQueue::abandon(Work& left, DelayedAck& ack) {
  if (left.code == Code::ok) left.code = Code::aborted;
  if (!left.all_cut) {
    left.request.local = left.request.local.first(left.cut_bytes);
    left.answer_bytes = 0;
    return;
  }
  // The READ or atomic counts as answered, so that a later answer is ignored.
  if (is_answered(left.request.opcode) && !left.answered) finish_read(left, ack);
}

}  // namespace tutti::device::rc
