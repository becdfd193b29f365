#include "engine/multicast/multicast_trace.hpp"

namespace tutti::engine {

using observe::TraceKind;
using protocol::Block;

void MulticastTrace::start(observe::CommunicatorTrace* trace, std::uint32_t epoch,
                           const protocol::BlockLayout& layout) {
  trace_ = trace;
  epoch_ = epoch;
  layout_ = &layout;
  if (trace_ != nullptr) collecting_since_.resize(layout.blocks().size());
}

void MulticastTrace::add_sent(std::uint32_t block_index) {
  const Block& block = layout_->blocks()[block_index];
  trace_->add({.kind = TraceKind::multicast,
               .epoch = epoch_,
               .name = "multicast",
               .begin = sending_since_,
               .end = trace_->now(),
               .slot = block_index,
               .bytes = layout_->bytes_of(block, block.psns)});
}

void MulticastTrace::add_collected(std::uint32_t block_index) {
  Instant& since = collecting_since_[block_index];
  if (since == Instant{}) return;
  const Block& block = layout_->blocks()[block_index];
  trace_->add({.kind = TraceKind::collect,
               .epoch = epoch_,
               .name = "collect",
               .begin = since,
               .end = trace_->now(),
               .peer = block.root,
               .slot = block_index,
               .bytes = layout_->bytes_of(block, block.psns)});
  since = {};
}

void MulticastTrace::collected_all() {
  for (std::uint32_t b = 0; b < collecting_since_.size(); ++b) add_collected(b);
}

void MulticastTrace::begin_read(std::uint32_t number) {
  if (number >= reading_since_.size()) reading_since_.resize(number + 1);
  reading_since_[number] = trace_->now();
}

void MulticastTrace::add_read(std::uint32_t number, const protocol::ReadOrder& order,
                              std::uint64_t bytes) {
  trace_->add({.kind = TraceKind::fetch,
               .epoch = epoch_,
               .name = "fetch",
               .begin = reading_since_[number],
               .end = trace_->now(),
               .peer = order.from,
               .slot = order.block_index,
               .bytes = bytes});
}

void MulticastTrace::add_cutoff(protocol::CutoffReason reason) {
  const Instant at = trace_->now();
  trace_->add({.kind = TraceKind::cutoff,
               .epoch = epoch_,
               .name = reason == protocol::CutoffReason::silence ? "cutoff: silence"
                                                                 : "cutoff: neighbour finished",
               .begin = at,
               .end = at});
}

}  // namespace tutti::engine
