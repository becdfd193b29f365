// Decides whether the senders of an Allgather take turns or all send at the same time, and at which
// rate. All ranks decide alike, because the decision depends only on the number of the collective
// and on rate votes that the ready barrier carries.
//
// Taking turns is safe on any network, and measures the link rate because one rank sends at a time.
// But a rank's downlink idles during its own turn, and each turn needs an activation.
//
// Sending at the same time avoids both costs. If the link and not the host is the bottleneck, each
// sender is paced to its share of the link rate, so that switch queues do not overflow.
#pragma once

#include <algorithm>
#include <cstdint>

#include "tutti/units.hpp"

namespace tutti::protocol {

/// The measurements of one rank. The ready barrier combines the votes of all ranks: the lowest
/// rate, and each flag if any rank has set it.
struct RateVote {
  static constexpr std::uint32_t kNoRate = 0xffff'ffffu;

  std::uint32_t rate_kib = kNoRate;  ///< arrival rate in KiB/s; kNoRate: not measured
  bool link_bound = false;           ///< a send queue was full, so the link is the bottleneck
  /// True: many chunks were lost, so a queue overflows if all ranks send at the same time.
  bool lossy = false;

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

/// Computes the new estimate of the link rate after an Allgather that was paced at `planned` bytes
/// per second. Its data arrived at `measured` bytes per second during `time`. A measurement above
/// the planned rate becomes the estimate. A lower measurement may come from a busy host, so it
/// lowers the estimate only slowly unless chunks were lost.
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
    std::uint64_t bytes_per_second = 0;  ///< rate of all senders together; 0: not limited
  };

  /// In an Allgather of at most this many bytes all ranks always send at the same time, because the
  /// buffer of a switch has room for all the data.
  static constexpr std::uint64_t kSmallBytes = 128 * 1024;

  /// Counts the next Allgather, of `bytes` bytes in total, and returns its plan.
  Plan next(std::uint64_t bytes) {
    if (bytes <= kSmallBytes) return {true, 0};
    ++count_;
    if (count_ == 1 || count_ % kCalibrationPeriod == kCalibrationPeriod - 1) return {};
    return plan_;
  }
  /// True if the ready barrier of the current Allgather, the one of the last call of `next`,
  /// carries a rate vote. Early Allgathers often carry a vote, later ones rarely.
  bool votes(std::uint64_t bytes) const {
    if (bytes <= kSmallBytes || count_ < 2) return false;
    if (count_ <= kEveryCall) return true;
    return count_ % (count_ < kRateVotePeriod ? kEveryCall : kRateVotePeriod) == 0;
  }
  /// The link rate that the ranks agreed on; 0 if unknown or if the hosts are the bottleneck.
  std::uint64_t agreed_rate() const { return plan_.bytes_per_second; }
  /// Applies the combined rate vote of all ranks.
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
