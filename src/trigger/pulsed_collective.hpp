// One rank's collective of any size, run through the units pulse by pulse and segment by segment.
//
// Pulsed credits decide when the next pulse may begin. A pulse is cut into segments that fit a
// packet, and each segment becomes the sequences of its builder on ports of its own, so the call
// needs ports for as many segments as its window holds. A segment whose sequences have completed is
// a response to the pulse; after the last response, the pulse's credit and ports are free.
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
  /// Creates one rank's whole call, of any number of elements; a barrier counts as one element.
  /// `port` is the first port that the call may use. Bank and credits belong to the node and
  /// outlive the call.
  static Result<PulsedCollective> create(UnitBank& bank, PulsedCredits& credits,
                                         const CollectiveCall& call,
                                         std::uint32_t segment_elements);

  /// Begins as many segments as credits and units have room for. Returns true if it began any.
  bool poll(Instant now);
  /// Handles a completion; false if its port does not belong to this call.
  bool on_completion(const Completion& completion);

  bool done() const { return !status_.ok() || credits_->complete(request_); }
  /// The error of the call; ok while it runs and after it has succeeded.
  const Status& status() const { return status_; }
  /// Returns the credits; to be called only when done. A call that failed with pulses in flight
  /// keeps them.
  bool close() { return credits_->close(request_); }
  JobId job() const { return call_.job; }

 private:
  /// A segment in flight.
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
