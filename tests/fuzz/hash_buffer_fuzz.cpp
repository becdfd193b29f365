// Fuzzes the hash buffer. Three bytes of the input choose an operation on the buffer. After each
// operation, the content must be that of a map to which the same operation was applied.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "trigger/hash_buffer.hpp"

namespace {

using namespace tutti::trigger;

constexpr std::uint32_t kReaders = 3;
constexpr std::uint32_t kSlotBytes = 4;

void require(bool holds) {
  if (!holds) std::abort();
}

/// The hash buffer under test, and maps of its expected content.
class Mirror {
 public:
  explicit Mirror(std::uint32_t slots) : buffer_({slots, kSlotBytes, kReaders}) {}

  void operate(std::uint8_t what, std::uint8_t which, std::uint8_t value) {
    const PacketKey key{static_cast<JobId>(which & 1), static_cast<NodeId>(which >> 1), Port{},
                        SequenceId{}};
    const std::uint32_t reader = value % kReaders;
    if (what % 4 == 0) write(key, value);
    if (what % 4 == 1) take(key);
    if (what % 4 == 2) park(key, reader);
    if (what % 4 == 3 && value % 8 == 0) discard();
    if (what % 4 == 3 && value % 8 == 1) cancel(reader);
    if (what % 4 == 3 && value % 8 > 1) wake();
    require(buffer_.counters().occupied == present_.size());
  }

 private:
  void write(const PacketKey& key, std::uint8_t value) {
    const std::vector<std::byte> payload(value % (kSlotBytes + 2), std::byte{value});
    const auto wrote = buffer_.write(key, value, payload);
    require((wrote == HashBuffer::Wrote::too_long) == (payload.size() > kSlotBytes));
    if (wrote == HashBuffer::Wrote::too_long) return;
    require(wrote != HashBuffer::Wrote::full || home_may_be_full());
    const auto waiting = waiting_.find(key.packed());
    require((wrote == HashBuffer::Wrote::taken) == present_.contains(key.packed()));
    require((wrote == HashBuffer::Wrote::woke) == (waiting != waiting_.end()));
    if (waiting != waiting_.end()) {
      woken_.insert(waiting->second);
      waiting_.erase(waiting);
    }
    if (wrote == HashBuffer::Wrote::stored || wrote == HashBuffer::Wrote::woke) {
      present_[key.packed()] = value;
    }
  }
  void take(const PacketKey& key) {
    const auto stored = buffer_.peek(key);
    const auto known = present_.find(key.packed());
    require(stored.has_value() == (known != present_.end()));
    if (!stored) return;
    require(stored->tag == known->second &&
            stored->payload.size() == known->second % (kSlotBytes + 2));
    for (const std::byte byte : stored->payload) require(byte == std::byte{known->second});
    buffer_.release(stored->slot);
    present_.erase(known);
  }
  void park(const PacketKey& key, std::uint32_t reader) {
    if (woken_.contains(reader)) return;
    const auto parked = buffer_.park(key, reader);
    require((parked == HashBuffer::Parked::present) == present_.contains(key.packed()));
    require(parked != HashBuffer::Parked::contested || !waiting_.empty() || home_may_be_full());
    if (parked == HashBuffer::Parked::parked) {
      require(waiting_.emplace(key.packed(), reader).second);
    }
  }
  void cancel(std::uint32_t reader) {
    buffer_.cancel(reader);
    woken_.erase(reader);
    std::erase_if(waiting_, [&](const auto& entry) { return entry.second == reader; });
  }
  void wake() {
    while (const auto reader = buffer_.next_woken()) require(woken_.erase(*reader) == 1);
    require(woken_.empty());
  }
  void discard() {
    const std::size_t before = present_.size();
    std::erase_if(present_, [](const auto& entry) {
      return PacketKey::unpack(entry.first).job == static_cast<JobId>(1);
    });
    require(buffer_.discard(static_cast<JobId>(1)) == before - present_.size());
  }

  /// Whether so many slots are in use that those of one key may be full.
  bool home_may_be_full() const {
    const std::size_t window = std::min(HashBuffer::kHomeWindow, buffer_.home_slots());
    return present_.size() + waiting_.size() >= window;
  }

  HashBuffer buffer_;
  std::map<std::uint64_t, std::uint8_t> present_;
  std::map<std::uint64_t, std::uint32_t> waiting_;
  std::set<std::uint32_t> woken_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  Mirror mirror(2 + data[0] % 40);
  for (std::size_t at = 1; at + 3 <= size; at += 3) {
    mirror.operate(data[at], data[at + 1], data[at + 2]);
  }
  return 0;
}
