// Records a multicast collective in the trace: sending of its own block, arrival of the others, and
// recovery. Costs one comparison if tracing is off.
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
  /// `trace` null: tracing is off. It and the layout outlive this.
  void start(observe::CommunicatorTrace* trace, std::uint32_t epoch,
             const protocol::BlockLayout& layout);

  /// More of this rank's block is about to be sent; the first call begins its span.
  void sending() {
    if (trace_ != nullptr && sending_since_ == Instant{}) sending_since_ = trace_->now();
  }
  /// The whole block was posted.
  void sent(std::uint32_t block_index) {
    if (trace_ != nullptr) add_sent(block_index);
  }
  /// The first chunk of a block has arrived.
  void collecting(std::uint32_t block_index) {
    if (trace_ != nullptr) collecting_since_[block_index] = trace_->now();
  }
  /// The last chunk of a block has arrived, by multicast or by READ.
  void collected(std::uint32_t block_index) {
    if (trace_ != nullptr) add_collected(block_index);
  }
  void collected_all();
  /// A READ with this number was posted, or has ended.
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
  std::vector<Instant> collecting_since_;  ///< by block; 0: not begun, or ended
  std::vector<Instant> reading_since_;     ///< by number
};

}  // namespace tutti::engine
