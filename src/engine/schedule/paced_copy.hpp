// A long copy that nobody waits for, beside work that somebody does.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <utility>

#include "tutti/units.hpp"

namespace tutti::engine {

/// Copies by slices, for a quarter of the time. All at once the copy of a rank's own block kept it,
/// and those of its core, from sending: a ring of 4 MiB began 2 ms late, with two ranks a core
/// five. Used by one thread.
class PacedCopy {
 public:
  static constexpr std::size_t kSliceBytes = 64 * 1024;

  /// Both are the caller's until the copy is over, of one size, and apart.
  void begin(std::span<const std::byte> source, std::span<std::byte> target) {
    source_ = source;
    target_ = target;
  }
  bool pending() const { return !source_.empty(); }
  /// Copies a slice, where one is due; returns whether it did. `at_leisure`: there is other work.
  bool go_on(Instant now, bool at_leisure) {
    if (slice_began_) due_ = now + (now - *std::exchange(slice_began_, {})) * kPauses;
    if (!pending() || (at_leisure && now < due_)) return false;
    const std::size_t bytes = std::min(source_.size(), kSliceBytes);
    std::memcpy(target_.data(), source_.data(), bytes);
    source_ = source_.subspan(bytes);
    target_ = target_.subspan(bytes);
    slice_began_ = now;
    return true;
  }
  /// When to call `go_on`: at once after a slice, to see how long it took; kNever: it is over.
  Instant due() const {
    if (!pending()) return kNever;
    return slice_began_ ? Instant{} : due_;
  }

 private:
  static constexpr int kPauses = 3;  ///< as long as a slice each, after every slice

  std::span<const std::byte> source_;
  std::span<std::byte> target_;
  Instant due_{};
  std::optional<Instant> slice_began_;  ///< the last one, where its duration is not known yet
};

}  // namespace tutti::engine
