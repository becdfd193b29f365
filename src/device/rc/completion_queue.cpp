#include "device/rc/completion_queue.hpp"

#include <algorithm>

namespace tutti::device::rc {

void CompletionQueue::push(const Completion& completion) {
  drop_taken();
  // The payload is copied before the entry is added, so that an exception never leaves an entry
  // without its payload.
  const std::size_t offset = bytes_.size();
  bytes_.insert(bytes_.end(), completion.payload.begin(), completion.payload.end());
  entries_.push_back({completion, offset, completion.payload.size()});
}

// Taken entries are erased once they are at least half of all entries. So even a queue that never
// becomes empty stays short, and on average each entry moves at most once.
void CompletionQueue::drop_taken() {
  if (taken_ == 0 || 2 * taken_ < entries_.size()) return;
  const std::size_t bytes = empty() ? bytes_.size() : entries_[taken_].offset;
  entries_.erase(entries_.begin(), entries_.begin() + static_cast<std::ptrdiff_t>(taken_));
  bytes_.erase(bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(bytes));
  for (Entry& entry : entries_) entry.offset -= bytes;
  taken_ = 0;
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
