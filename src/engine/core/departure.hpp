// How a rank leaves its communicator: step by step, until no peer needs it any more.
//
//   serving ---> finishing ---> announced ---> over
//      |  no peer needs its        |  each peer has acknowledged the
//      |  blocks or entries        |  announcement, or time is up
//      +------> telling -----------+
//   a failure, of which the peers learn
#pragma once

#include <cstdint>

#include "engine/core/communicator_context.hpp"
#include "tutti/status.hpp"
#include "tutti/units.hpp"

namespace tutti::engine {

class Departure {
 public:
  /// `context` must outlive this object. After `deadline` the rank no longer serves its peers;
  /// sending failure notices may take a fraction of a second more.
  Departure(CommunicatorContext& context, Instant deadline)
      : context_(context), deadline_(deadline) {}

  /// Enters the next step if the present one is complete; must be called after each poll of the
  /// context. Returns true if it entered a step: the context must then be polled again at once,
  /// because messages may wait to be sent.
  bool step(Instant now);
  bool over() const { return step_ == Step::over; }
  /// The failure of the communicator, if it took effect in the step `serving` or if this rank
  /// itself has failed. Code::timeout, if the deadline passed while a peer still needed this rank.
  /// Otherwise ok.
  Status status() const;

 private:
  enum class Step : std::uint8_t {
    first,
    serving,    ///< peers may need a retained block or a slot entry of this rank
    finishing,  ///< calls that are still under way are awaited
    announced,  ///< the peers are told that this rank closes
    telling,    ///< the peers are told that the communicator has failed
    settling,   ///< a failure in `announced` ends the calls once the receive workers have stopped
    over,
  };

  void serve(Instant now);
  void announce(Instant now);
  bool may_leave(Instant now) const;
  void enter(Step step, Instant now);
  Status unserved() const;

  CommunicatorContext& context_;
  Instant deadline_;
  Instant entered_{};  ///< time at which the present step began
  Step step_ = Step::first;
  Status end_;
};

}  // namespace tutti::engine
