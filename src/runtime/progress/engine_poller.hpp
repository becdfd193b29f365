// Polls the communicators that one engine serves, and sleeps until one of them has something to do.
//
// A communicator that is idle when the owner goes to sleep becomes dormant: its endpoint stays
// prepared to wake the owner, and no round polls it. An event on its descriptor, its next deadline,
// a call or a failure ends the dormancy. The cost of a round therefore does not grow with the
// number of idle communicators.
#pragma once

#include <sys/epoll.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <vector>

#include "device/posix/descriptor.hpp"
#include "engine/core/communicator_context.hpp"
#include "observe/trace_log.hpp"
#include "runtime/progress/exception_status.hpp"
#include "tutti/status.hpp"
#include "tutti/units.hpp"

namespace tutti::runtime {

/// Only the owner of the engine calls these functions, except those marked "any thread".
class EnginePoller {
 public:
  /// Each dormant communicator is polled at intervals of `longest_dormancy`. A lost wake-up
  /// therefore delays the communicator by at most this time.
  explicit EnginePoller(Nanoseconds longest_dormancy = std::chrono::seconds(1))
      : longest_dormancy_(longest_dormancy) {}

  Status open();

  Status add(engine::CommunicatorContext& context);
  void remove(engine::CommunicatorContext& context);
  const std::vector<engine::CommunicatorContext*>& contexts() const { return contexts_; }

  /// Awakens each dormant communicator that has something to do, and polls every awake communicator
  /// once; returns true if there was work. If the step of a communicator throws, only this
  /// communicator fails.
  bool poll_all();
  /// Polls the communicators that have calls in flight, and every few rounds calls `poll_all`. An
  /// idle communicator needs fewer polls, because it only answers messages of its peers. These
  /// messages also wake the owner if it sleeps.
  bool poll_busy();
  /// Ends the dormancy of a communicator.
  void awaken(engine::CommunicatorContext& context);
  /// Reports that a call was submitted to a communicator; if it is dormant, the owner awakens it
  /// before the next round. Any thread, after the submission.
  void on_submission(engine::CommunicatorContext& context) {
    if (!context.operations().dormant()) return;
    const engine::CommunicatorContext* const other = submitted_to_.exchange(&context);
    if (other != nullptr && other != &context) on_change();
  }
  /// Declares that a dormant communicator may have a new call or a new failure. Any thread.
  void on_change() { changed_.store(true, std::memory_order_seq_cst); }
  /// Runs one step of one communicator and returns true if the step did some work. If the step
  /// throws, the communicator fails.
  template <typename Step>
  static bool run_contained(engine::CommunicatorContext& context, Step&& step) {
    try {
      return step();
    } catch (...) {
      context.failures().fail(status_of_exception());
    }
    // An exception counts as work: the next round must end the communicator's calls with the error.
    return true;
  }
  /// Fails a communicator because of `cause`; if this throws, with the error of the exception.
  static void fail_because(engine::CommunicatorContext& context, const Status& cause) {
    run_contained(context, [&] {
      context.failures().fail_because(cause);
      return true;
    });
  }
  /// Records `status` as the failure of every communicator. The next round of polling ends their
  /// calls with this error.
  void fail_all(const Status& status);

  /// True if a communicator has a call in flight.
  bool busy();
  /// The earliest time at which a communicator must be polled even if nothing arrives.
  Instant next_deadline();
  /// True if an operation asks that all ranks on the same core begin at the same time.
  bool begins_together() const;
  /// True if all running operations are slot exchanges.
  bool only_slot_exchanges() const;

  /// Sleeps until a communicator has something to do, another thread calls notify_owner(), or the
  /// deadline passes. `busy` writes the time of the sleep to the trace.
  void block(Instant deadline, observe::BusyTrace& busy);
  /// Prepares all communicators to wake a sleeping owner; returns false if there is work already.
  /// Lowers `deadline` to the time at which the engine must be polled again.
  bool prepare_wait(Instant& deadline);
  /// Undoes prepare_wait(). The next owner of the engine, which may be another thread, must call
  /// this function.
  void after_wait();

  /// Wakes the owner if it sleeps. Any thread.
  void notify_owner();
  /// Wakes a sleeping owner because receive workers have results for it. Any thread.
  void notify_sleeping_owner();
  /// Clears the notification of notify_owner(), which would end the next sleep.
  void clear_notification();
  /// A descriptor that another epoll set can contain; it is readable when a communicator has
  /// something to do. Any thread.
  int descriptor() const { return epoll_.get(); }

 private:
  using Events = std::array<epoll_event, 16>;
  /// A dormant communicator. Its deadline cannot change, because no thread polls the communicator.
  struct Dormant {
    engine::CommunicatorContext* context;
    Instant due;
  };

  template <typename Condition>
  void awaken_if(const Condition& condition);
  void awaken_changed();
  void awaken_due(Instant now);
  void awaken_reported(const Events& events, int count);
  void awaken_all_due(Instant now);
  bool retire_idle();
  template <typename Condition>
  bool poll_if(Instant at, const Condition& condition);
  bool has_news() const;

  Nanoseconds longest_dormancy_;
  device::Descriptor epoll_;
  device::Descriptor owner_event_;
  /// True while the owner sleeps; maintained only if there are receive workers.
  std::atomic<bool> asleep_{false};
  std::vector<engine::CommunicatorContext*> contexts_;  ///< all communicators, dormant or awake
  std::vector<engine::CommunicatorContext*> awake_;     ///< communicators that are not dormant
  std::vector<Dormant> dormant_;                        ///< all other communicators
  Instant dormant_deadline_ = kNever;  ///< the earliest deadline of a dormant communicator
  Instant all_due_{};                  ///< time at which all dormant communicators are awakened
  Instant events_due_{};  ///< time at which a polling owner next asks the kernel for events
  /// A dormant communicator that has a new call. If several communicators have new calls,
  /// `changed_` is set, too, because the pointer holds only one of them.
  std::atomic<engine::CommunicatorContext*> submitted_to_{nullptr};
  std::atomic<bool> changed_{false};  ///< true: dormant communicators may have calls or failures
  std::uint32_t rounds_ = 0;          ///< rounds of `poll_busy` since the owner last slept
  bool sendable_watched_ = false;
};

}  // namespace tutti::runtime
