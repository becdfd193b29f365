// What a multicast collective says to the trace: its block's sending, the others' coming, and what
// recovery did. Costs a comparison where nothing is traced.
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
  /// `trace` null: nothing is traced. It and the layout outlive this.
  void start(observe::CommunicatorTrace* trace, std::uint32_t epoch,
             const protocol::BlockLayout& layout);

  /// This rank's block is about to be sent further; the first time begins its span.
  void sending() {
    if (trace_ != nullptr && sending_since_ == Instant{}) sending_since_ = trace_->now();
  }
  /// All of it was posted.
  void sent(std::uint32_t block_index) {
    if (trace_ != nullptr) add_sent(block_index);
  }
  /// Something of a block came for the first time.
  void collecting(std::uint32_t block_index) {
    if (trace_ != nullptr) collecting_since_[block_index] = trace_->now();
  }
  /// Its last chunk came; or everything is here, that chunk by another way.
  void collected(std::uint32_t block_index) {
    if (trace_ != nullptr) add_collected(block_index);
  }
  void collected_all();
  /// A READ by this number was posted, and is over.
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
  std::vector<Instant> collecting_since_;  ///< by block; 0: not now
  std::vector<Instant> reading_since_;     ///< by number
};

}  // namespace tutti::engine
