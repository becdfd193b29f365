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
    damaged,   ///< wrong integrity word: damaged on the way, or not sent by a rank of this job
    replayed,  ///< the counter was received before, or is older than the replay window
  };

  /// Checks datagrams whose source is one of the ranks 0 to `ranks` - 1.
  explicit ArrivalCheck(std::uint32_t ranks) : windows_(ranks) {}
  /// Sets the keys of the integrity words; must precede the first datagram. Without this call the
  /// integrity words are CRC-32C.
  void use(TagKeys keys) { keys_ = std::move(keys); }

  /// Decides whether to accept a datagram of the rank `source` that carries the integrity word
  /// `expected`. `compute(integrity)` computes the word that the datagram should have. If the
  /// counter alone suffices to refuse the datagram, `compute` is not called.
  template <typename Compute>
  Verdict judge(Rank source, std::uint64_t counter, std::uint64_t expected, Compute&& compute) {
    ReplayWindow& window = windows_[index(source)];
    if (!window.fresh(counter)) return Verdict::replayed;
    // A forged counter must not make this rank derive tag keys far beyond those in use.
    const std::uint64_t generation = TagKeys::generation_of(window.greatest());
    if (TagKeys::generation_of(counter) > generation + 1) return Verdict::damaged;
    const Integrity* const integrity = keys_.of(counter);
    if (integrity == nullptr || compute(*integrity) != expected) return Verdict::damaged;
    window.take(counter);
    return Verdict::fresh;
  }

 private:
  TagKeys keys_;
  std::vector<ReplayWindow> windows_;  ///< replay windows, indexed by source rank
};

}  // namespace tutti::wire
