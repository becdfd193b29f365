// The answers that this side owes its peer, in order of request: the data of READs, sent from the
// registered region, the old values of atomics, and refusals.
#pragma once

#include <cstdint>
#include <vector>

#include "device/rc/memory_table.hpp"
#include "device/rc/rc_config.hpp"
#include "device/rc/rc_frame.hpp"

namespace tutti::device::rc {

class ResponseQueue {
 public:
  /// `memory` and `counters` must outlive the queue.
  ResponseQueue(std::uint32_t max_frame_bytes, const MemoryTable& memory, RcCounters& counters)
      : max_frame_bytes_(max_frame_bytes), memory_(memory), counters_(counters) {}

  /// From now on, answers are cut into frames of at most `bytes` bytes.
  void limit_frames(std::uint32_t bytes) { max_frame_bytes_ = bytes; }

  /// Queues the answers to a read_request.
  void add_reads(const RcFrame& request);
  /// Executes an atomic and queues its answer, which keeps the old value for retransmissions. Must
  /// be called only once for each request.
  void execute_atomic(const RcFrame& request);
  /// Queues the refusal of a WRITE; false if the queue is full.
  bool refuse_write(std::uint32_t operation);
  void clear() { first_ = end_; }
  /// True if no answer waits to be cut into frames.
  bool empty() const { return first_ == end_; }

  /// Cuts the next frame from the oldest answer and describes the frame in `record`. If
  /// `undelivered` is true, long frames do not reach the peer, so READs are refused.
  void cut(bool undelivered, FrameRecord& record);
  /// Fills in the contents of a frame that this queue has cut, for its first transmission and for
  /// retransmissions.
  void fill(bool undelivered, FrameRecord& record, RcFrame& out, OutgoingFrame& frame) const;

 private:
  /// Capacity of the queue: one answer for each open READ or atomic of the peer, and as many
  /// refusals of WRITEs.
  static constexpr std::uint32_t kSlots = 2 * kMaxOpenReads;

  struct Response {
    RcKind kind = RcKind::read_response;
    std::uint32_t operation = 0;
    std::uint64_t key = 0;
    std::uint64_t offset = 0;
    std::uint64_t length = 0;
    std::uint64_t position = 0;  ///< bytes already cut into frames
    std::uint64_t old_value = 0;
  };

  bool full() const { return end_ - first_ >= kSlots; }
  bool push(const Response& response);

  std::uint32_t max_frame_bytes_;
  const MemoryTable& memory_;
  RcCounters& counters_;
  std::vector<Response> slots_;  ///< ring of answers, allocated on first use
  std::uint32_t first_ = 0;
  std::uint32_t end_ = 0;
};

}  // namespace tutti::device::rc
