// Whether the senders of an Allgather take turns or send at once, and how fast: learned from what
// the ranks see, agreed on by a vote that rides on the ready barrier.
//
// Taking turns (one chain) is safe on any network and measures it: whoever sends alone sends at the
// link's rate. But a rank's downlink idles during its own turn, so an Allgather takes P N/B instead
// of (P-1) N/B. Sending at once avoids that and all activations; where the link, not the host, is
// the limit, each sender is then paced to its share, or the switch's queues would overflow.
//
// All decisions follow from the number of the collective and from agreed votes: the same
// everywhere.
#pragma once

#include <algorithm>
#include <cstdint>

#include "tutti/units.hpp"

namespace tutti::protocol {

/// What one rank has seen; combined to the worst of all.
struct RateVote {
  static constexpr std::uint32_t kNoRate = 0xffff'ffffu;

  std::uint32_t rate_kib = kNoRate;  ///< KiB/s that data arrived at; kNoRate: no opinion
  bool link_bound = false;           ///< a send queue filled up: the link is the limit
  bool lossy = false;                ///< much was lost: sending at once overruns a queue

  RateVote combined(const RateVote& other) const {
    return {std::min(rate_kib, other.rate_kib), link_bound || other.link_bound,
            lossy || other.lossy};
  }
  std::uint64_t pack() const {
    return std::uint64_t{rate_kib} << 2 | std::uint64_t{link_bound} << 1 | std::uint64_t{lossy};
  }
  static RateVote unpack(std::uint64_t bits) {
    return {static_cast<std::uint32_t>(bits >> 2), (bits >> 1 & 1) != 0, (bits & 1) != 0};
  }
};

/// The links' rate after a paced Allgather whose data came at `measured` bytes per second for
/// `time`. Only what was measured raises an estimate. What lowers it may be a busy host, which
/// costs a moment whatever the size: that moment is forgiven, and the rest is followed slowly
/// unless chunks were lost.
constexpr std::uint64_t learned_rate(std::uint64_t planned, std::uint64_t measured,
                                     Nanoseconds time, bool lost) {
  constexpr std::int64_t kHostNoiseNs = 1'000'000;
  constexpr std::int64_t kForgivenDivisor = 16;
  constexpr std::uint64_t kYieldDivisor = 40;
  if (lost || measured >= planned) return measured;
  const std::int64_t forgiven_ns = std::min(kHostNoiseNs, time.count() / kForgivenDivisor);
  const double stretch =
      static_cast<double>(time.count()) / static_cast<double>(time.count() - forgiven_ns);
  const auto at_best = static_cast<std::uint64_t>(static_cast<double>(measured) * stretch);
  return std::min(planned, std::max(at_best, planned - planned / kYieldDivisor));
}

class SendSchedule {
 public:
  struct Plan {
    bool at_once = false;
    std::uint64_t bytes_per_second = 0;  ///< of all senders together; 0: as fast as they can
  };

  /// Collectives this small are sent at once whatever is known: they fit any switch's buffer.
  static constexpr std::uint64_t kSmallBytes = 128 * 1024;

  /// The next Allgather of `bytes` in all. Counts it.
  Plan next(std::uint64_t bytes) {
    if (bytes <= kSmallBytes) return {true, 0};
    ++count_;
    if (count_ == 1 || count_ % kCalibrationPeriod == kCalibrationPeriod - 1) return {};
    return plan_;
  }
  /// Whether the collective just counted carries a vote. RateVote early and often at first, then
  /// rarely.
  bool votes(std::uint64_t bytes) const {
    if (bytes <= kSmallBytes || count_ < 2) return false;
    if (count_ <= kEveryCall) return true;
    return count_ % (count_ < kRateVotePeriod ? kEveryCall : kRateVotePeriod) == 0;
  }
  /// The rate of the links that the ranks agreed on; 0: none, or the hosts are the limit.
  std::uint64_t agreed_rate() const { return plan_.bytes_per_second; }
  /// The outcome of a vote.
  void adopt(const RateVote& vote) {
    const std::uint64_t before = plan_.bytes_per_second;
    plan_ = {};
    if (vote.lossy) return;
    if (!vote.link_bound) {
      plan_.at_once = true;
      return;
    }
    const bool known = vote.rate_kib != RateVote::kNoRate;
    plan_.bytes_per_second = known ? std::uint64_t{vote.rate_kib} * 1024 : before;
    plan_.at_once = plan_.bytes_per_second > 0;
  }

 private:
  static constexpr std::uint64_t kEveryCall = 8;
  static constexpr std::uint64_t kRateVotePeriod = 32;
  static constexpr std::uint64_t kCalibrationPeriod = 128;

  std::uint64_t count_ = 0;
  Plan plan_;
};

}  // namespace tutti::protocol
