// The work posted to one peer, in order, from `push` to completion. The work is cut into frames,
// which are filled from the poster's memory at each transmission.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "device/atomics.hpp"
#include "device/device.hpp"
#include "device/rc/completion_queue.hpp"
#include "device/rc/rc_buffer_pool.hpp"
#include "device/rc/rc_config.hpp"
#include "device/rc/rc_delayed_ack.hpp"
#include "device/rc/rc_frame.hpp"
#include "tutti/status.hpp"

namespace tutti::device::rc {

/// A SEND of at most this many bytes is copied when it is posted.
inline constexpr std::size_t kInlineSendBytes = 256;

class WorkQueue {
 public:
  /// `config` must outlive the queue.
  WorkQueue(Rank peer, const RcConfig& config, std::uint32_t first)
      : peer_(peer),
        config_(config),
        first_(first),
        next_(first),
        end_(first),
        inline_buffers_(kInlineSendBytes, config.max_queued_requests) {}

  /// Queues a request. Fails as RcChannel::post does, but does not check whether the channel has
  /// failed.
  Status push(const WorkRequest& request);
  /// The number that the next posted work will get.
  std::uint32_t end() const { return end_; }
  /// True if all work is completed.
  bool empty() const { return first_ == end_; }
  /// True if the poster may be waiting for the completion of a WRITE, READ or atomic.
  bool awaited() const { return awaited_ > 0; }
  /// True if a WRITE or atomic is not completed.
  bool stores() const { return stores_ > 0; }

  /// True if some work is not completely cut into frames.
  bool uncut() const { return next_ != end_; }
  /// The highest priority of the work that is not completely cut into frames; normal if there is
  /// none.
  Priority priority() const {
    if (uncut_[2] > 0) return Priority::high;
    return uncut_[1] == 0 && uncut_[0] > 0 ? Priority::low : Priority::normal;
  }
  /// True if a frame can be cut. While kMaxOpenReads READs and atomics are unanswered, the next
  /// READ or atomic must wait.
  bool may_cut() const {
    if (next_ == end_) return false;
    return !is_answered(work(next_).request.opcode) || open_reads_ < kMaxOpenReads;
  }
  /// Cuts the next frame from the oldest work that is not completely cut into frames, and describes
  /// it in `record`. Requires may_cut().
  void cut(FrameRecord& record);
  /// Fills in the contents of a frame that this queue has cut, for its first transmission and for
  /// retransmissions.
  void fill(const FrameRecord& record, RcFrame& out, OutgoingFrame& frame) const;
  /// Encodes the ranges of a read_request behind its header.
  void add_ranges(const FrameRecord& record, OutgoingFrame& frame) const;

  /// Records that the peer has acknowledged a frame of the work `operation`.
  void on_acknowledged(std::uint32_t operation) { --work(operation).frames; }
  /// Places the data of a read_response or atomic_answer. Makes an ACK due if the answer is
  /// complete.
  void accept_answer(const RcFrame& frame, DelayedAck& ack);
  /// Marks as failed the work that this frame refuses. Makes an ACK due if the work is a READ or
  /// atomic.
  void accept_refusal(const RcFrame& frame, DelayedAck& ack);
  /// Completes the finished work at the head of the queue.
  void complete(CompletionSink& sink) {
    while (first_ != next_ && finished(work(first_))) complete_head(work(first_).code, sink);
  }
  /// Completes all work with `code`, except that refused work keeps the code of its refusal.
  void fail(Code code, CompletionSink& sink, Blame blame);
  /// Releases the posters' memory, as RcChannel::abandon does.
  void abandon(DelayedAck& ack);

 private:
  /// A posted request and its progress.
  struct Work {
    WorkRequest request;
    std::byte* inline_copy = nullptr;
    std::uint64_t cut_bytes = 0;     ///< bytes put into frames so far
    std::uint64_t answer_bytes = 0;  ///< READ, atomic: bytes of the answer still missing
    std::uint32_t frames = 0;        ///< unacknowledged frames
    bool all_cut = false;
    bool answered = false;  ///< READ, atomic: the whole answer has arrived
    Code code = Code::ok;
  };

  Work& work(std::uint32_t operation) { return works_[operation & (works_.size() - 1)]; }
  const Work& work(std::uint32_t operation) const {
    return works_[operation & (works_.size() - 1)];
  }
  Work* open_work(std::uint32_t operation);
  static bool awaited(const WorkRequest& request);
  static bool stores(const WorkRequest& request) {
    return request.opcode != Opcode::send && request.opcode != Opcode::read;
  }
  void grow();

  void cut_data(Work& cut, FrameRecord& record);
  void cut_reads(FrameRecord& record);
  void ask(Work& asked);
  void place_answer(const RcFrame& frame, std::uint64_t offset, std::span<const std::byte> bytes,
                    DelayedAck& ack);

  static bool finished(const Work& done) {
    if (!done.all_cut || done.frames > 0) return false;
    return !is_answered(done.request.opcode) || done.answered;
  }
  void complete_head(Code code, CompletionSink& sink, Blame blame = Blame::peer);
  void finish_read(Work& read, DelayedAck& ack);
  void end_cutting(Work& cut);
  void pass_next();
  std::uint32_t& uncut_of(const WorkRequest& request) {
    return uncut_[static_cast<std::size_t>(static_cast<int>(request.priority) + 1)];
  }
  void abandon(Work& left, DelayedAck& ack);

  Rank peer_;
  const RcConfig& config_;
  std::vector<Work> works_;  ///< ring whose size is a power of two and grows on demand
  std::uint32_t first_;      ///< number of the first work that is not completed
  std::uint32_t next_;       ///< number of the first work that is not completely cut into frames
  std::uint32_t end_;
  std::uint32_t open_reads_ = 0;  ///< number of READs and atomics sent but not answered
  std::uint32_t awaited_ = 0;
  std::uint32_t stores_ = 0;  ///< number of WRITEs and atomics not completed
  /// By priority: number of requests that are not completely cut into frames.
  std::array<std::uint32_t, 3> uncut_{};
  BufferPool inline_buffers_;
};

}  // namespace tutti::device::rc
