// The progress thread, which owns the engine while no application thread does.
//
// While parked, it checks from time to time whether application threads still poll the engine and
// whether work is due. While awake, it polls until nothing is left to do, and then sleeps on the
// network without owning the engine (EngineOwnership).
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <thread>

#include "device/posix/descriptor.hpp"
#include "observe/trace_log.hpp"
#include "runtime/progress/background_priority.hpp"
#include "runtime/progress/engine_ownership.hpp"
#include "runtime/progress/engine_poller.hpp"
#include "tutti/status.hpp"
#include "tutti/units.hpp"

namespace tutti::runtime {

class BackgroundThread {
 public:
  /// `ownership` and `engine` must outlive the thread. `log` receives its trace spans; null: no
  /// trace.
  BackgroundThread(EngineOwnership& ownership, EnginePoller& engine,
                   const PriorityRequest& priority, double realtime_share, observe::TraceLog* log)
      : ownership_(ownership), engine_(engine), priority_(priority, realtime_share), log_(log) {}
  ~BackgroundThread() { stop(); }
  BackgroundThread(const BackgroundThread&) = delete;
  BackgroundThread& operator=(const BackgroundThread&) = delete;

  /// Starts the thread and returns once its priority is set. Fails if the kernel refuses a priority
  /// that the user demanded.
  Status start();
  void stop();

  /// Makes the progress thread poll, because the application computes. Any thread may call it.
  void wake();
  /// Number of calls of wake(), plus the number of expected waits that did not come. Any thread.
  std::uint64_t wakes() const { return wakes_.load(std::memory_order_relaxed); }
  /// Declares that the application is expected to wait before `latest`. If the application does not
  /// wait by then, the parked progress thread takes the engine at its next check, after some
  /// milliseconds. The caller must have polled the engine after it submitted its call: a progress
  /// thread that sleeps on the network does not check until a poll makes it park. Any thread.
  void expect_wait(Instant latest) { expected_wait_.store(latest, std::memory_order_relaxed); }
  /// Records that the application waits; returns true if the wait was expected. Any thread.
  bool on_wait() {
    return expected_wait_.load(std::memory_order_relaxed) != kNever &&
           expected_wait_.exchange(kNever, std::memory_order_relaxed) != kNever;
  }
  /// Writes the progress thread's priority to a counter of each communicator. Only the owner of the
  /// engine calls this.
  void report_priority();
  /// Calls `work`, which runs code of the application, at normal priority: this code may wait for
  /// computing threads of the application. Only the owner of the engine calls this.
  template <typename Work>
  void run_at_normal_priority(Work&& work) {
    if (std::this_thread::get_id() != thread_.get_id()) return work();
    priority_.run_at_normal(work);
  }

  // Functions for an application thread that owns the engine or is about to take it.

  /// Counts a use of the engine by an application thread; while this count grows, the parked
  /// thread checks less often. The caller must hold the lock.
  void count_application_round() { ++application_rounds_; }
  /// Records that an application thread has taken the engine while the progress thread sleeps on
  /// the network (Watch::armed). The progress thread continues to sleep.
  void on_watch_disarmed();
  /// Sets the timer that wakes a sleeping progress thread after the application thread has released
  /// the engine. The caller must not hold the lock.
  void before_application_leaves();
  /// Records that the application thread releases the engine, which must be polled again at `due`.
  /// The caller must hold the lock.
  void on_application_leaves(Instant due);

 private:
  bool park(EngineOwnership::Lock& lock);
  void request_engine();
  void run();
  Instant own_contained();
  Instant own();
  bool watch();
  void watch_engine(bool on);
  void enforce_budget(bool worked);

  EngineOwnership& ownership_;
  EnginePoller& engine_;
  /// Priority of the progress thread; used by the owner of the engine.
  BackgroundPriority priority_;
  observe::TraceLog* log_;

  /// Epoll set of wake_event_, timer_ and, while watches_engine_ is true, the engine's descriptor.
  device::Descriptor watch_epoll_;
  device::Descriptor wake_event_;
  /// Timer that wakes the progress thread when the engine's events do not.
  device::Descriptor timer_;
  /// True: watch_epoll_ includes the engine's descriptor. Only the owner of the engine uses it.
  bool watches_engine_ = false;
  /// True: an application thread took the engine while the progress thread slept on the network
  /// (Watch::armed). Only the owner of the engine uses it.
  bool left_asleep_ = false;

  // Members that the lock of `ownership_` guards.
  std::condition_variable parked_;
  bool stop_ = false;
  bool wake_requested_ = false;
  /// True: the progress thread owns the engine only for due work, and releases it when that work is
  /// done.
  bool brief_ = false;
  Instant due_ = kNever;  ///< time by which the engine must be polled again
  std::uint64_t application_rounds_ = 0;
  static constexpr std::uint64_t kNone = UINT64_MAX;
  /// The value that application_rounds_ had when an application thread released the engine while
  /// the progress thread slept on the network; otherwise kNone. If application_rounds_ still has
  /// this value in park(), the progress thread takes the engine at once.
  std::uint64_t rounds_left_asleep_ = kNone;

  /// True: the application has computed while a call was in flight.
  std::atomic<bool> application_computes_{false};
  std::atomic<std::uint64_t> wakes_{0};
  /// Latest time at which the application is expected to wait; kNever if no wait is expected.
  std::atomic<Instant> expected_wait_{kNever};
  std::thread thread_;
};

}  // namespace tutti::runtime
