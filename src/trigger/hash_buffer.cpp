#include "trigger/hash_buffer.hpp"

#include <algorithm>
#include <cstring>

#include "base/random.hpp"

namespace tutti::trigger {

HashBuffer::HashBuffer(const Settings& settings)
    : home_slots_(std::max(1u, settings.slots - (settings.slots + 9) / 10)),
      reserve_slots_(std::max(1u, std::max(2u, settings.slots) - home_slots_)),
      slot_bytes_(settings.slot_bytes) {
  const std::size_t all = std::size_t{slots()} + settings.readers;
  keys_.assign(all, kFree);
  valid_ = Bitmap(all);
  tags_.resize(all);
  sizes_.resize(all);
  waiting_.assign(all, kNone);
  parked_at_.assign(settings.readers, kNone);
  woken_.reserve(settings.readers);
  payloads_.resize(all * slot_bytes_);
}

std::array<HashBuffer::Window, 3> HashBuffer::windows(std::uint64_t key) const {
  const std::uint64_t first = mix(key);
  const std::uint64_t second = mix(first);
  const auto start = [](std::uint64_t hash, std::uint32_t slots) {
    return static_cast<std::uint32_t>(((hash >> 32) * slots) >> 32);
  };
  const auto low = [](std::uint64_t hash) { return hash << 32; };
  return {
      Window{0, home_slots_, start(first, home_slots_), std::min(kHomeWindow, home_slots_)},
      Window{0, home_slots_, start(low(first), home_slots_), std::min(kHomeWindow, home_slots_)},
      Window{home_slots_, reserve_slots_, start(second, reserve_slots_),
             std::min(kReserveWindow, reserve_slots_)}};
}

std::uint32_t HashBuffer::find_in(const Window& window, std::uint64_t key) const {
  for (std::uint32_t i = 0; i < window.size; ++i) {
    const std::uint32_t slot = window.slot(i);
    if (keys_[slot] == key) return slot;
  }
  return kNone;
}

std::uint32_t HashBuffer::find(std::uint64_t key) const {
  const auto around = windows(key);
  for (std::size_t i = 0; i < around.size(); ++i) {
    if (i == 2 && counters_.reserve == 0) break;
    const std::uint32_t slot = find_in(around[i], key);
    if (slot != kNone) return slot;
  }
  if (landings_ == 0) return kNone;
  for (std::uint32_t slot = slots(); slot < keys_.size(); ++slot) {
    if (keys_[slot] == key) return slot;
  }
  return kNone;
}

std::uint32_t HashBuffer::count_free(const Window& window) const {
  std::uint32_t free = 0;
  for (std::uint32_t i = 0; i < window.size; ++i) free += keys_[window.slot(i)] == kFree ? 1 : 0;
  return free;
}

std::uint32_t HashBuffer::place(std::uint64_t key) const {
  const auto around = windows(key);
  const bool second = count_free(around[1]) > count_free(around[0]);
  const std::uint32_t home = find_in(around[second ? 1 : 0], kFree);
  return home != kNone ? home : find_in(around[2], kFree);
}

void HashBuffer::claim(std::uint32_t slot, std::uint64_t key) {
  keys_[slot] = key;
  if (slot >= slots()) ++landings_;
  if (!is_reserve(slot)) return;
  ++counters_.reserve;
  counters_.reserve_high_water = std::max(counters_.reserve_high_water, counters_.reserve);
}

void HashBuffer::free_slot(std::uint32_t slot) {
  if (valid_.test(slot)) --counters_.occupied;
  valid_.clear(slot);
  keys_[slot] = kFree;
  if (slot >= slots()) --landings_;
  if (is_reserve(slot)) --counters_.reserve;
}

void HashBuffer::fill(std::uint32_t slot, std::uint32_t tag, std::span<const std::byte> payload) {
  if (!payload.empty()) {
    std::memcpy(payloads_.data() + std::size_t{slot} * slot_bytes_, payload.data(), payload.size());
  }
  tags_[slot] = tag;
  sizes_[slot] = static_cast<std::uint32_t>(payload.size());
  valid_.set(slot);
  ++counters_.stored;
  ++counters_.occupied;
  counters_.occupied_high_water = std::max(counters_.occupied_high_water, counters_.occupied);
}

HashBuffer::Wrote HashBuffer::write(const PacketKey& key, std::uint32_t tag,
                                    std::span<const std::byte> payload) {
  if (payload.size() > slot_bytes_) return Wrote::too_long;
  const std::uint64_t packed = key.packed();
  std::uint32_t slot = find(packed);
  if (slot != kNone && valid_.test(slot)) {
    ++counters_.pushed_back_taken;
    return Wrote::taken;
  }
  if (slot != kNone) {
    fill(slot, tag, payload);
    const std::uint32_t reader = waiting_[slot];
    waiting_[slot] = kNone;
    parked_at_[reader] = kNone;
    woken_.push_back(reader);
    ++counters_.woke;
    return Wrote::woke;
  }
  slot = place(packed);
  if (slot == kNone) {
    ++counters_.pushed_back_full;
    return Wrote::full;
  }
  claim(slot, packed);
  fill(slot, tag, payload);
  return Wrote::stored;
}

HashBuffer::Stored HashBuffer::stored_at(std::uint32_t slot) const {
  return {slot, tags_[slot],
          std::span(payloads_).subspan(std::size_t{slot} * slot_bytes_, sizes_[slot])};
}

std::optional<HashBuffer::Stored> HashBuffer::peek(const PacketKey& key) const {
  const std::uint32_t slot = find(key.packed());
  if (slot == kNone || !valid_.test(slot)) return std::nullopt;
  return stored_at(slot);
}

HashBuffer::Parked HashBuffer::park(const PacketKey& key, std::uint32_t reader) {
  const std::uint64_t packed = key.packed();
  std::uint32_t slot = find(packed);
  if (slot != kNone && valid_.test(slot)) return Parked::present;
  if (slot != kNone || parked_at_[reader] != kNone) return Parked::contested;
  slot = place(packed);
  if (slot == kNone) {
    slot = slots() + reader;
    if (keys_[slot] != kFree) return Parked::contested;
    ++counters_.landed;
  }
  claim(slot, packed);
  waiting_[slot] = reader;
  parked_at_[reader] = slot;
  ++counters_.parked;
  return Parked::parked;
}

void HashBuffer::release(std::uint32_t slot) { free_slot(slot); }

void HashBuffer::cancel(std::uint32_t reader) {
  const std::uint32_t slot = parked_at_[reader];
  std::erase(woken_, reader);
  if (slot == kNone) return;
  parked_at_[reader] = kNone;
  waiting_[slot] = kNone;
  free_slot(slot);
}

std::optional<std::uint32_t> HashBuffer::next_woken() {
  if (woken_.empty()) return std::nullopt;
  const std::uint32_t reader = woken_.back();
  woken_.pop_back();
  return reader;
}

std::uint32_t HashBuffer::discard(JobId job) {
  std::uint32_t discarded = 0;
  for (std::uint32_t slot = 0; slot < keys_.size(); ++slot) {
    if (!valid_.test(slot) || PacketKey::unpack(keys_[slot]).job != job) continue;
    free_slot(slot);
    ++discarded;
  }
  return discarded;
}

}  // namespace tutti::trigger
