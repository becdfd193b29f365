// Estimates of the network, measured by the collectives of a communicator. An estimate outlives the
// operation that measured it, because later operations use it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "protocol/cutoff.hpp"
#include "protocol/send_schedule.hpp"
#include "tutti/units.hpp"

namespace tutti::engine {

class NetworkEstimates {
 public:
  /// `assumed_bytes_per_second`: the arrival rate that is assumed until one is measured.
  explicit NetworkEstimates(std::uint64_t assumed_bytes_per_second)
      : bytes_per_second_(assumed_bytes_per_second) {}

  protocol::Jitter& jitter() { return jitter_; }
  /// Recent arrival rate of multicast data, in bytes per second.
  std::uint64_t bytes_per_second() const { return bytes_per_second_; }
  void observe_rate(std::uint64_t bytes, Nanoseconds time) {
    constexpr std::uint64_t kMinSampleBytes = 65536;
    if (time.count() <= 0 || bytes < kMinSampleBytes) return;
    const auto sample = static_cast<std::uint64_t>(static_cast<double>(bytes) * 1e9 /
                                                   static_cast<double>(time.count()));
    bytes_per_second_ = (bytes_per_second_ * 3 + std::max<std::uint64_t>(sample, 1)) / 4;
  }
  /// Whether chunks were lost in one of the last few collectives.
  bool lossy() const { return loss_memory_ > 0; }
  void observe_loss(bool lost) {
    constexpr std::uint32_t kRememberedCollectives = 8;
    loss_memory_ = lost ? kRememberedCollectives : loss_memory_ - std::min(loss_memory_, 1u);
  }
  /// Decides how the senders of this communicator's Allgathers share the network.
  protocol::SendSchedule& send_schedule() { return send_schedule_; }
  /// This rank's rate vote for the send schedule, filled in by the operations.
  protocol::RateVote& vote() { return vote_; }

 private:
  protocol::Jitter jitter_;
  std::uint64_t bytes_per_second_;
  /// `lossy` becomes false after this many more collectives without a loss.
  std::uint32_t loss_memory_ = 0;
  protocol::SendSchedule send_schedule_;
  protocol::RateVote vote_;
};

}  // namespace tutti::engine
