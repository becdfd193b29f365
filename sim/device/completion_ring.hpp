// The completion queue of a simulated endpoint.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "device/device.hpp"
#include "sim/device/payload_store.hpp"
#include "sim/device/ring_queue.hpp"

namespace tutti::device::sim {

/// A queue of completions. The completion of a received message holds the message, and every
/// completion has an instant from which the host can see it.
class CompletionRing {
 public:
  void push(const Completion& completion, Instant visible, Payload* payload = nullptr) {
    entries_.push_back({completion, visible, payload});
  }
  /// Moves the completions that the host can see at `now` to `out`. Their messages stay valid until
  /// the next call of this function.
  std::size_t take(Instant now, std::span<Completion> out, PayloadStore& payloads) {
    for (Payload* payload : lent_) payloads.release(payload);
    lent_.clear();
    std::size_t count = 0;
    while (count < out.size() && !entries_.empty() && entries_.front().visible <= now) {
      Entry& entry = entries_.front();
      out[count] = entry.completion;
      if (entry.payload != nullptr) {
        out[count].payload = entry.payload->bytes();
        lent_.push_back(entry.payload);
      }
      ++count;
      entries_.pop_front();
    }
    return count;
  }
  bool empty() const { return entries_.empty(); }
  /// The instant from which the host can see the first queued completion; kNever if none is queued.
  Instant next_visible() const { return entries_.empty() ? kNever : entries_[0].visible; }

 private:
  struct Entry {
    Completion completion;
    Instant visible;
    Payload* payload = nullptr;
  };

  RingQueue<Entry> entries_;
  std::vector<Payload*> lent_;
};

}  // namespace tutti::device::sim
