// Decides which datagrams of one stream are authentic and new. Used by one thread.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "tutti/units.hpp"
#include "wire/replay_window.hpp"
#include "wire/tag_keys.hpp"

namespace tutti::wire {

class ArrivalCheck {
 public:
  enum class Verdict : std::uint8_t {
    fresh,
    damaged,   ///< wrong integrity word: damaged, or not made by a rank of this job
    replayed,  ///< received before, or too old to tell
  };

  /// For datagrams of `ranks` ranks.
  explicit ArrivalCheck(std::uint32_t ranks) : windows_(ranks) {}
  /// Sets the integrity words, which are CRC-32C at first; must precede the first datagram.
  void use(TagKeys keys) { keys_ = std::move(keys); }

  /// Judges a datagram of the rank `source`. `compute` computes the integrity word and is called
  /// with the Integrity to use, unless the counter shows that the datagram cannot be fresh.
  template <typename Compute>
  Verdict judge(Rank source, std::uint64_t counter, std::uint64_t expected, Compute&& compute) {
    ReplayWindow& window = windows_[index(source)];
    if (!window.fresh(counter)) return Verdict::replayed;
    // A forged counter must not make this rank derive keys that are not needed.
    const std::uint64_t generation = TagKeys::generation_of(window.greatest());
    if (TagKeys::generation_of(counter) > generation + 1) return Verdict::damaged;
    const Integrity* const integrity = keys_.of(counter);
    if (integrity == nullptr || compute(*integrity) != expected) return Verdict::damaged;
    window.take(counter);
    return Verdict::fresh;
  }

 private:
  TagKeys keys_;
  std::vector<ReplayWindow> windows_;  ///< windows, indexed by rank
};

}  // namespace tutti::wire
