// Polls the communicators that one engine serves, and sleeps until one of them has news.
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

/// For the owner of the engine only, except for functions marked "any thread".
class EnginePoller {
 public:
  Status open();

  Status add(engine::CommunicatorContext& context);
  void remove(engine::CommunicatorContext& context);
  const std::vector<engine::CommunicatorContext*>& contexts() const { return contexts_; }

  /// Polls every communicator once; returns true if there was work. A communicator whose step
  /// throws fails with that reason, and the others go on.
  bool poll_all();
  /// Polls the communicators that run collectives, and now and then all of them. Idle communicators
  /// only answer their peers; a thread that blocks is woken for that.
  bool poll_busy();
  /// Runs one step of one communicator and returns true if there was work; an exception fails that
  /// communicator.
  template <typename Step>
  static bool run_contained(engine::CommunicatorContext& context, Step&& step) {
    try {
      return step();
    } catch (...) {
      context.failures().fail(status_of_exception());
    }
    return true;  // work, because the next round carries out the failure
  }
  /// Fails every communicator; the next round carries the failures out.
  void fail_all(const Status& status);

  /// The time at which some communicator must be polled even if nothing arrives.
  Instant next_deadline() const;
  /// True if an operation asks that all ranks of a core start together.
  bool begins_together() const;
  /// True if all running operations are slot exchanges.
  bool only_slot_exchanges() const;

  /// Sleeps until there is news, another thread notifies, or the deadline passes. `busy` records
  /// the sleep.
  void block(Instant deadline, observe::BusyTrace& busy);
  /// Arms the wake-ups of all communicators; false if there is news or work already. Shortens the
  /// deadline to the time at which the engine has something due.
  bool prepare_wait(Instant& deadline);
  /// Ends what `prepare_wait` began. The next owner, which may be another thread, calls it.
  void after_wait();

  /// Wakes the owner if it blocks. Any thread.
  void notify_owner();
  /// Wakes a sleeping owner because receive workers have news. Any thread.
  void notify_sleeping_owner();
  /// Clears a notification that came while no thread blocked.
  void clear_notification();
  /// A descriptor for another epoll set, readable when a communicator has news. Any thread.
  int descriptor() const { return epoll_.get(); }

 private:
  bool has_news() const;

  device::Descriptor epoll_;
  device::Descriptor owner_event_;
  /// True while the owner sleeps; maintained only if there are workers.
  std::atomic<bool> asleep_{false};
  std::vector<engine::CommunicatorContext*> contexts_;
  std::uint32_t rounds_ = 0;  ///< rounds since all communicators were polled
  bool sendable_watched_ = false;
};

}  // namespace tutti::runtime
