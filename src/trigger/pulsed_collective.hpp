// Runs one rank's call of a collective, of any size, on trigger units. The call is cut into pulses,
// and each pulse into segments that fit a packet. A pulse is the batch of segments for which one
// credit is given.
//
// Pulsed credits decide when the next pulse may begin. Each segment runs as sequences on separate
// ports. Once all sequences of a pulse have completed, its credit and ports are free.
//
// The caller calls poll(), and on_completion() for each completion of the node's units.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "trigger/build/builders.hpp"
#include "trigger/pulsed_credits.hpp"
#include "trigger/unit_bank.hpp"

namespace tutti::trigger {

class PulsedCollective {
 public:
  /// Creates a call at one rank, for any number of elements; a barrier counts as one element. The
  /// call uses ports from `port` upwards; `bank` and `credits` belong to the node and must outlive
  /// the call.
  static Result<PulsedCollective> create(UnitBank& bank, PulsedCredits& credits,
                                         const CollectiveCall& call,
                                         std::uint32_t segment_elements);

  /// Begins as many segments as credits and free sequences allow. Returns true if it began at least
  /// one.
  bool poll(Instant now);
  /// Handles a completion of a unit; returns false if the port of the completion does not belong to
  /// this call.
  bool on_completion(const Completion& completion);

  bool done() const { return !status_.ok() || credits_->complete(request_); }
  /// The error of the call; ok while the call runs and after it has succeeded.
  const Status& status() const { return status_; }
  /// Gives the credits back and returns true; the call must be done. Returns false and keeps the
  /// credits if the call has failed while pulses were in flight.
  bool close() { return credits_->close(request_); }
  JobId job() const { return call_.job; }

 private:
  /// A segment that has begun and is not complete.
  struct Channel {
    std::uint32_t counter = 0;
    std::uint32_t elements = 0;
    std::uint32_t sequences_left = 0;
  };

  PulsedCollective(UnitBank& bank, PulsedCredits& credits, const CollectiveCall& call,
                   std::uint32_t segment_elements);
  Status begin(const PulsedCredits::Pulse& pulse);
  bool post(Instant now);

  UnitBank* bank_;
  PulsedCredits* credits_;
  std::vector<NodeId> nodes_;
  CollectiveCall call_;
  std::uint32_t segment_elements_;
  std::uint32_t segments_per_pulse_;
  PulsedCredits::Request request_;
  std::vector<Channel> channels_;
  std::deque<DescriptorList> unposted_;
  Status status_;
};

}  // namespace tutti::trigger
