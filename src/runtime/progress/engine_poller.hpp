// The communicators that one engine serves: polling them, and sleeping until one of them has news.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "device/posix/descriptor.hpp"
#include "engine/core/communicator_context.hpp"
#include "observe/trace_log.hpp"
#include "runtime/progress/exception_status.hpp"
#include "tutti/status.hpp"
#include "tutti/units.hpp"

namespace tutti::runtime {

/// Used by the owner of the engine only, except where marked.
class EnginePoller {
 public:
  Status open();

  Status add(engine::CommunicatorContext& context);
  void remove(engine::CommunicatorContext& context);
  const std::vector<engine::CommunicatorContext*>& contexts() const { return contexts_; }

  /// One round over all communicators; returns whether there was work. A communicator whose step
  /// throws fails with that reason, and the others go on.
  bool poll_all();
  /// One round over the communicators that run collectives, and now and then over all: idle ones
  /// only answer their peers, and a thread that blocks hears of those.
  bool poll_busy();
  /// One step of one communicator, which returns whether there was work; an exception fails it.
  template <typename Step>
  static bool run_contained(engine::CommunicatorContext& context, Step&& step) {
    try {
      return step();
    } catch (...) {
      context.failures().fail(status_of_exception());
    }
    return true;  // the next round carries out the failure
  }
  /// Fails every communicator; the next round carries that out.
  void fail_all(const Status& status);

  /// When a communicator must be polled though nothing arrives.
  Instant next_deadline() const;
  /// Whether an operation asks for all ranks of a core to start together.
  bool begins_together() const;
  /// Whether slot exchanges are all that runs.
  bool only_slot_exchanges() const;

  /// Sleeps until there is news, a thread notifies, or the deadline passes. The sleep is `busy`'s.
  void block(Instant deadline, observe::BusyTrace& busy);
  /// Arms the communicators' wake-ups; false: there is news or work already. Shortens the deadline
  /// to what the engine has due.
  bool prepare_wait(Instant& deadline);
  /// Ends what `prepare_wait` began; called by the next owner, which may be another thread.
  void after_wait();

  /// Wakes the owner where it blocks. Any thread.
  void notify_owner();
  /// The same where an owner sleeps that receive workers have news for. Any thread.
  void notify_sleeping_owner();
  /// Takes back a notification that came while nothing blocked.
  void clear_notification();
  /// Readable when a communicator has news; for another epoll set. Any thread.
  int descriptor() const { return epoll_.get(); }

 private:
  bool has_news() const;

  device::Descriptor epoll_;
  device::Descriptor owner_event_;
  std::atomic<bool> asleep_{false};  ///< the owner sleeps; kept only where there are workers
  std::vector<engine::CommunicatorContext*> contexts_;
  std::uint32_t rounds_ = 0;  ///< since all were polled
  bool sendable_watched_ = false;
};

}  // namespace tutti::runtime
