// A paced copy: a long local copy for which no task waits. It must not delay more urgent work.
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

/// Copies in slices, which take at most a quarter of the thread's time while more urgent work is
/// pending. Copying a rank's own block in one piece would delay the start of a ring. Used by one
/// thread.
class PacedCopy {
 public:
  static constexpr std::size_t kSliceBytes = 64 * 1024;

  /// Begins a copy. Both spans have the same size, do not overlap, and must stay valid until the
  /// copy has ended.
  void begin(std::span<const std::byte> source, std::span<std::byte> target) {
    source_ = source;
    target_ = target;
  }
  bool pending() const { return !source_.empty(); }
  /// Copies a slice if one is due; returns true if it did. `other_work` means that more urgent work
  /// is pending.
  bool go_on(Instant now, bool other_work) {
    if (slice_began_) due_ = now + (now - *std::exchange(slice_began_, {})) * kPauses;
    if (!pending() || (other_work && now < due_)) return false;
    const std::size_t bytes = std::min(source_.size(), kSliceBytes);
    std::memcpy(target_.data(), source_.data(), bytes);
    source_ = source_.subspan(bytes);
    target_ = target_.subspan(bytes);
    slice_began_ = now;
    return true;
  }
  /// The time at which `go_on` must be called: at once after a slice, to measure its duration;
  /// kNever after the end of the copy.
  Instant due() const {
    if (!pending()) return kNever;
    return slice_began_ ? Instant{} : due_;
  }

 private:
  /// Length of the pause after a slice, as a multiple of the slice's duration.
  static constexpr int kPauses = 3;

  std::span<const std::byte> source_;
  std::span<std::byte> target_;
  Instant due_{};
  /// Start of the last slice; nothing once its duration is known.
  std::optional<Instant> slice_began_;
};

}  // namespace tutti::engine
