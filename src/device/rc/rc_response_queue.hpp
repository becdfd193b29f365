// The answers that this side owes its peer, in order of request: the data of READs, sent from the
// registered region, and refusals of READs and WRITEs whose key or range is invalid.
#pragma once

#include <cstdint>
#include <vector>

#include "device/rc/memory_table.hpp"
#include "device/rc/rc_config.hpp"
#include "device/rc/rc_frame.hpp"

namespace tutti::device::rc {

class ResponseQueue {
 public:
  /// `memory` and `counters` outlive the queue.
  ResponseQueue(std::uint32_t max_frame_bytes, const MemoryTable& memory, RcCounters& counters)
      : max_frame_bytes_(max_frame_bytes), memory_(memory), counters_(counters) {}

  /// Queues the answers to a read_request.
  void add_reads(const RcFrame& request);
  /// Queues the refusal of a WRITE; false if the queue is full.
  bool refuse_write(std::uint32_t operation);
  void clear() { first_ = end_; }
  /// True if no answer waits to be cut into frames.
  bool empty() const { return first_ == end_; }

  /// Cuts the next frame. `undelivered`: long frames do not arrive, so READs are refused.
  void cut(bool undelivered, FrameRecord& record);
  /// Adds what a frame of this queue carries, at its first transmission and at later ones.
  void fill(bool undelivered, FrameRecord& record, RcFrame& out, OutgoingFrame& frame) const;

 private:
  /// Open READs of the peer, and as many refusals of WRITEs.
  static constexpr std::uint32_t kSlots = 2 * kMaxOpenReads;

  struct Response {
    RcKind kind = RcKind::read_response;
    std::uint32_t operation = 0;
    std::uint64_t key = 0;
    std::uint64_t offset = 0;
    std::uint64_t length = 0;
    std::uint64_t position = 0;  ///< bytes cut into frames
  };

  bool push(const Response& response);

  std::uint32_t max_frame_bytes_;
  const MemoryTable& memory_;
  RcCounters& counters_;
  std::vector<Response> slots_;  ///< ring, allocated on first use
  std::uint32_t first_ = 0;
  std::uint32_t end_ = 0;
};

}  // namespace tutti::device::rc
