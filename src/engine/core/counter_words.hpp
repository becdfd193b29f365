// Counter words: words in this rank's memory to which the other ranks of a communicator add by
// atomic operations [OFED-AT]. The class also keeps the memory keys of the other ranks' words.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>

#include "device/device.hpp"
#include "tutti/status.hpp"
#include "tutti/units.hpp"

namespace tutti::engine {

class CounterWords {
 public:
  CounterWords() = default;
  CounterWords(const CounterWords&) = delete;
  CounterWords& operator=(const CounterWords&) = delete;
  ~CounterWords() {
    if (key_) endpoint_->deregister_memory(*key_);
  }

  /// Byte offset, within words_, of the word that the collective `epoch` uses.
  static std::uint64_t offset_of(std::uint32_t epoch) {
    return epoch % kWords * sizeof(std::uint64_t);
  }
  /// The memory key by which peers add to this rank's words. The first call registers the words at
  /// `endpoint`, which must outlive this object.
  Result<device::MemoryKey> key(device::Endpoint& endpoint) {
    if (!key_) {
      auto registered = endpoint.register_memory(std::as_writable_bytes(std::span(words_)));
      if (!registered) return registered.status();
      key_ = *registered;
      endpoint_ = &endpoint;
    }
    return *key_;
  }
  /// True if this is the first call for `rank`: the caller must then send the key to that rank.
  bool tell(Rank rank) { return told_.insert(rank).second; }

  std::uint64_t count(std::uint32_t epoch) { return word(epoch).load(std::memory_order_acquire); }
  /// Subtracts the additions of a collective from its word, so that a later collective can use the
  /// word.
  void subtract(std::uint32_t epoch, std::uint64_t additions) {
    word(epoch).fetch_sub(additions, std::memory_order_acq_rel);
  }

  /// The memory key of another rank's words; nothing if that rank has not sent the key.
  std::optional<device::MemoryKey> key_of(Rank rank) const {
    const auto found = keys_.find(rank);
    return found == keys_.end() ? std::nullopt : std::optional(found->second);
  }
  void learn(Rank rank, device::MemoryKey key) { keys_[rank] = key; }

 private:
  /// Number of words. Collectives with equal epoch % kWords share a word, but never use it at the
  /// same time: a rank that waits for additions subtracts them from its word before it lets the
  /// other ranks continue.
  static constexpr std::uint32_t kWords = 64;

  std::atomic_ref<std::uint64_t> word(std::uint32_t epoch) {
    return std::atomic_ref<std::uint64_t>(words_[epoch % kWords]);
  }

  device::Endpoint* endpoint_ = nullptr;
  std::array<std::uint64_t, kWords> words_{};
  std::optional<device::MemoryKey> key_;
  std::set<Rank> told_;
  std::map<Rank, device::MemoryKey> keys_;
};

}  // namespace tutti::engine
