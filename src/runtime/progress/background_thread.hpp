// The progress thread, which owns the engine while no application thread does.
//
// Parked, it checks now and then whether application threads still make progress by themselves and
// whether something is due. Awake, it polls until there is nothing to do, and then watches the
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
  /// `ownership` and `engine` must outlive the thread. `log` records its rounds; null: no trace.
  BackgroundThread(EngineOwnership& ownership, EnginePoller& engine,
                   const PriorityRequest& priority, double realtime_share, observe::TraceLog* log)
      : ownership_(ownership), engine_(engine), priority_(priority, realtime_share), log_(log) {}
  ~BackgroundThread() { stop(); }
  BackgroundThread(const BackgroundThread&) = delete;
  BackgroundThread& operator=(const BackgroundThread&) = delete;

  /// Starts the thread and returns once the scheduler has answered; fails if a demanded priority is
  /// refused.
  Status start();
  void stop();

  /// Makes the thread poll, because the application computes. Any thread may call it.
  void wake();
  /// Shows the thread's priority as a counter of each communicator. Owner of the engine only.
  void report_priority();
  /// Calls `work` at normal priority if this thread has real-time priority, because the
  /// application's code may wait for its computing threads. Owner of the engine only.
  template <typename Work>
  void run_at_normal_priority(Work&& work) {
    if (std::this_thread::get_id() != thread_.get_id()) return work();
    priority_.run_at_normal(work);
  }

  // Functions for an application thread that owns the engine or is about to take it.

  /// Notes that an application thread makes progress by itself, so that the pauses between checks
  /// grow. Needs the lock.
  void count_application_round() { ++application_rounds_; }
  /// Notes that an application thread has taken the engine from an armed watch, which sleeps on.
  void on_watch_disarmed();
  /// Prepares the watch for the time after the application thread has left the engine. Called
  /// without the lock.
  void before_application_leaves();
  /// Notes that the application thread leaves and that the engine must be polled again at `due`.
  /// Needs the lock.
  void on_application_leaves(Instant due);

 private:
  bool park(EngineOwnership::Lock& lock);
  void run();
  Instant own_contained();
  Instant own();
  bool watch();
  void watch_engine(bool on);
  void enforce_budget(bool worked);

  EngineOwnership& ownership_;
  EnginePoller& engine_;
  BackgroundPriority priority_;  ///< priority of this thread; for the owner of the engine
  observe::TraceLog* log_;

  /// Epoll set of wake_event_, timer_ and, while armed, the engine.
  device::Descriptor watch_epoll_;
  device::Descriptor wake_event_;
  device::Descriptor timer_;  ///< timer that ends a disarmed watch
  /// True: watch_epoll_ includes the engine; for the owner of the engine.
  bool watches_engine_ = false;
  /// True: an application thread took the engine from an armed watch; for the owner of the engine.
  bool left_asleep_ = false;

  // Members that the lock of the ownership guards.
  std::condition_variable parked_;
  bool stop_ = false;
  bool wake_requested_ = false;
  bool brief_ = false;    ///< true: own the engine only until due work is done
  Instant due_ = kNever;  ///< time at which the engine must be polled, as its last owner left it
  std::uint64_t application_rounds_ = 0;
  static constexpr std::uint64_t kNone = UINT64_MAX;
  /// Value of application_rounds_ when the watch was left asleep.
  std::uint64_t rounds_left_asleep_ = kNone;

  std::atomic<bool> application_computes_{false};  ///< true: a nonblocking collective has begun
  std::thread thread_;
};

}  // namespace tutti::runtime
