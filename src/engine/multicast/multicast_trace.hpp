// Records a multicast collective in the trace: the sending of this rank's block, the arrival of the
// other ranks' blocks, and recovery. Each call costs one comparison if tracing is off.
#pragma once

#include <cstdint>
#include <vector>

#include "observe/trace_log.hpp"
#include "protocol/block_layout.hpp"
#include "protocol/cutoff.hpp"
#include "protocol/fetch_ring.hpp"
#include "tutti/units.hpp"

namespace tutti::engine {

class MulticastTrace {
 public:
  /// A null `trace` turns tracing off. `trace` and `layout` must outlive this object.
  void start(observe::CommunicatorTrace* trace, std::uint32_t epoch,
             const protocol::BlockLayout& layout);

  /// Records that more of this rank's block is about to be sent; the first call begins the block's
  /// span.
  void sending() {
    if (trace_ != nullptr && sending_since_ == Instant{}) sending_since_ = trace_->now();
  }
  /// Records that this rank's whole block was posted.
  void sent(std::uint32_t block_index) {
    if (trace_ != nullptr) add_sent(block_index);
  }
  /// Records that the first chunk of a block has arrived.
  void collecting(std::uint32_t block_index) {
    if (trace_ != nullptr) collecting_since_[block_index] = trace_->now();
  }
  /// Records that the last chunk of a block has arrived, by multicast or by READ.
  void collected(std::uint32_t block_index) {
    if (trace_ != nullptr) add_collected(block_index);
  }
  void collected_all();
  /// `reading` records that the READ with this number was posted, `read` that it has ended.
  void reading(std::uint32_t number) {
    if (trace_ != nullptr) begin_read(number);
  }
  void read(std::uint32_t number, const protocol::ReadOrder& order, std::uint64_t bytes) {
    if (trace_ != nullptr) add_read(number, order, bytes);
  }
  void cut_off(protocol::CutoffReason reason) {
    if (trace_ != nullptr) add_cutoff(reason);
  }

 private:
  void add_sent(std::uint32_t block_index);
  void add_collected(std::uint32_t block_index);
  void begin_read(std::uint32_t number);
  void add_read(std::uint32_t number, const protocol::ReadOrder& order, std::uint64_t bytes);
  void add_cutoff(protocol::CutoffReason reason);

  observe::CommunicatorTrace* trace_ = nullptr;
  const protocol::BlockLayout* layout_ = nullptr;
  std::uint32_t epoch_ = 0;
  Instant sending_since_{};
  /// By block: arrival time of the first chunk; 0 before the first chunk and after the last one.
  std::vector<Instant> collecting_since_;
  std::vector<Instant> reading_since_;  ///< by READ number: time when the READ was posted
};

}  // namespace tutti::engine
