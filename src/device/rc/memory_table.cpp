#include "device/rc/memory_table.hpp"

#include "base/error.hpp"
#include "crypto/secret.hpp"

namespace tutti::device::rc {

Result<std::uint64_t> MemoryTable::draw_key(std::uint32_t slot) {
  constexpr std::size_t kDrawnAtOnce = 64;
  if (keys_ == Keys::counted) return ++registrations_ << kSlotBits | slot;
  std::uint64_t key = kNoKey;
  while (key >> kSlotBits == 0) {
    if (random_.empty()) {
      random_.resize(kDrawnAtOnce);
      if (Status status = crypto::fill_random(std::as_writable_bytes(std::span(random_)));
          !status) {
        random_.clear();
        return status;
      }
    }
    key = random_.back();
    random_.pop_back();
  }
  return key >> kSlotBits << kSlotBits | slot;
}

Result<MemoryKey> MemoryTable::add(std::span<std::byte> memory) {
  if (first_free_ == kNoSlot) {
    if (regions_.size() >> kSlotBits != 0) {
      return failure(Code::resource_exhausted,
                     "all 2^{} memory regions are registered: deregister a region first",
                     kSlotBits);
    }
    regions_.emplace_back();
    first_free_ = static_cast<std::uint32_t>(regions_.size() - 1);
  }
  const auto key = draw_key(first_free_);
  if (!key) return key.status();
  Region& region = regions_[first_free_];
  first_free_ = region.next_free;
  region = {.memory = memory, .key = *key, .next_free = kNoSlot};
  ++size_;
  return MemoryKey{*key};
}

bool MemoryTable::remove(MemoryKey key) {
  if (!resolve(key.key, 0, 0)) return false;
  const auto slot = static_cast<std::uint32_t>(slot_of(key.key));
  regions_[slot] = {.memory = {}, .key = kNoKey, .next_free = first_free_};
  first_free_ = slot;
  --size_;
  return true;
}

}  // namespace tutti::device::rc
