// A collective of any size at one rank: pulse by pulse, segment by segment, through the units.
//
// Pulsed credits say when the next pulse may begin. A pulse is cut into segments that fit a packet;
// each becomes the sequences of its builder, on ports of its own: as many ports as the window has
// segments. A segment whose sequences have completed is a response to the pulse; when all have
// come, the pulse's credit and its ports are free again.
//
// Drive it: poll(), and on_completion() with what the node's units complete.
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
  /// The call of one rank as a whole, of any number of elements; `port` is the first that it may
  /// use. Bank and credits are the node's and outlive it. A barrier counts as one element.
  static Result<PulsedCollective> create(UnitBank& bank, PulsedCredits& credits,
                                         const CollectiveCall& call,
                                         std::uint32_t segment_elements);

  /// Begins what credits and units have room for. Returns whether anything was begun.
  bool poll(Instant now);
  /// A completion on one of this call's ports. False: it is not this call's.
  bool on_completion(const Completion& completion);

  bool done() const { return !status_.ok() || credits_->complete(request_); }
  /// Why the call has failed; ok while it runs and when it has ended well.
  const Status& status() const { return status_; }
  /// Gives the credits back; only when done. A call that failed with pulses in flight keeps them.
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
