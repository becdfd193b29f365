#include "device/rc/completion_queue.hpp"

#include <algorithm>

namespace tutti::device::rc {

void CompletionQueue::push(const Completion& completion) {
  if (empty()) {
    entries_.clear();
    bytes_.clear();
    taken_ = 0;
  }
  // The payload is copied before the entry is added, so that an exception never leaves an entry
  // without its payload.
  const std::size_t offset = bytes_.size();
  bytes_.insert(bytes_.end(), completion.payload.begin(), completion.payload.end());
  entries_.push_back({completion, offset, completion.payload.size()});
}

std::size_t CompletionQueue::take(std::span<Completion> out) {
  const std::size_t count = std::min(out.size(), entries_.size() - taken_);
  for (std::size_t i = 0; i < count; ++i) {
    const Entry& entry = entries_[taken_++];
    out[i] = entry.completion;
    out[i].payload = std::span<const std::byte>(bytes_).subspan(entry.offset, entry.size);
  }
  return count;
}

}  // namespace tutti::device::rc
