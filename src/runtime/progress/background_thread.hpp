// The thread that owns the engine while no application thread does.
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
  /// `ownership` and `engine` outlive it. `log`: of its rounds; null: none.
  BackgroundThread(EngineOwnership& ownership, EnginePoller& engine,
                   const PriorityRequest& priority, double realtime_share, observe::TraceLog* log)
      : ownership_(ownership), engine_(engine), priority_(priority, realtime_share), log_(log) {}
  ~BackgroundThread() { stop(); }
  BackgroundThread(const BackgroundThread&) = delete;
  BackgroundThread& operator=(const BackgroundThread&) = delete;

  /// Returns once the scheduler has answered; fails where a demanded priority is refused.
  Status start();
  void stop();

  /// Has it poll, since the application computes. Any thread.
  void wake();
  /// Shows the priority as a counter of each communicator. By the owner of the engine.
  void report_priority();
  /// Calls `work` at normal priority where this thread runs in real time: the application's code
  /// may wait for its computing threads. By the owner of the engine.
  template <typename Work>
  void run_at_normal_priority(Work&& work) {
    if (std::this_thread::get_id() != thread_.get_id()) return work();
    priority_.run_at_normal(work);
  }

  // For an application thread that owns the engine, or is about to.

  /// An application thread makes progress by itself: the pauses between checks grow. With the lock.
  void count_application_round() { ++application_rounds_; }
  /// An application thread has taken the engine from an armed watch, which sleeps on.
  void on_watch_disarmed();
  /// The application thread leaves: the engine must be polled again at `due`. Without the lock.
  void before_application_leaves();
  /// The same, with the lock.
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
  BackgroundPriority priority_;  ///< used by the owner of the engine
  observe::TraceLog* log_;

  device::Descriptor watch_epoll_;  ///< of `wake_event_`, `timer_` and, while armed, the engine
  device::Descriptor wake_event_;
  device::Descriptor timer_;     ///< ends a disarmed watch
  bool watches_engine_ = false;  ///< used by the owner of the engine
  bool left_asleep_ = false;     ///< the same; an owner took the engine from an armed watch

  // Guarded by the lock of the ownership.
  std::condition_variable parked_;
  bool stop_ = false;
  bool wake_requested_ = false;
  bool brief_ = false;    ///< own the engine only until what is due is done
  Instant due_ = kNever;  ///< when the engine must be polled, as its last owner left it
  std::uint64_t application_rounds_ = 0;
  static constexpr std::uint64_t kNone = UINT64_MAX;
  std::uint64_t rounds_left_asleep_ = kNone;  ///< application_rounds_ when the watch was left

  std::atomic<bool> application_computes_{false};  ///< a nonblocking collective has begun
  std::thread thread_;
};

}  // namespace tutti::runtime
