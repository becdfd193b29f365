#include "sim/fabric/event_wheel.hpp"

namespace tutti::sim {

std::uint32_t EventWheel::take_chunk(std::uint32_t next) {
  std::uint32_t taken = free_chunk_;
  if (taken != 0) {
    free_chunk_ = chunks_[taken].next;
    prefetch(free_chunk_);
  } else {
    taken = static_cast<std::uint32_t>(chunks_.size());
    chunks_.emplace_back();
  }
  chunks_[taken].count = 0;
  chunks_[taken].next = next;
  return taken;
}

}  // namespace tutti::sim
