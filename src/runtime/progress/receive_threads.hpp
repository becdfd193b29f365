// The threads of the receive workers ([Khalilov24] 4.3): each thread polls the workers of any
// number of communicators in turn, and sleeps on their sockets while nothing arrives.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "engine/receive/receive_team.hpp"
#include "observe/trace_log.hpp"
#include "runtime/diagnostics/rank_trace.hpp"
#include "runtime/progress/thread_priority.hpp"
#include "tutti/status.hpp"

namespace tutti::runtime {

class ReceiveThread {
 public:
  /// Creates a thread. `log` receives the spans of the thread and must outlive the thread; null: no
  /// trace.
  static Result<std::unique_ptr<ReceiveThread>> create(observe::TraceLog* log,
                                                       const PriorityRequest& precedence);
  ~ReceiveThread();
  ReceiveThread(const ReceiveThread&) = delete;
  ReceiveThread& operator=(const ReceiveThread&) = delete;

  /// Adds a worker to those that the thread polls.
  Status attach(engine::ReceiveWorker& worker);
  /// Stops polling a worker, and returns once the thread no longer uses the worker. Has no effect
  /// if the thread does not poll this worker.
  void detach(engine::ReceiveWorker& worker);

 private:
  ReceiveThread(observe::TraceLog* log, const PriorityRequest& precedence)
      : log_(log), priority_request_(precedence) {}
  Status open();
  void run();
  bool take_changes();
  static bool poll_contained(engine::ReceiveWorker& worker, Instant at);
  void wait();
  /// Wakes the thread if it sleeps. Any thread may call it.
  void rouse();
  void notify_owner();
  /// Waits until the thread polls the workers in `wanted_`.
  void apply(std::unique_lock<std::mutex>& lock);

  observe::TraceLog* log_;
  PriorityRequest priority_request_;
  int epoll_ = -1;
  int owner_event_ = -1;
  std::atomic<bool> asleep_{false};
  std::atomic<bool> changed_{false};

  std::mutex mutex_;  ///< guards applied_, wanted_, current_ and stop_, and changes of `workers_`
  std::condition_variable applied_;
  std::vector<engine::ReceiveWorker*> wanted_;  ///< workers that the thread shall poll next
  bool current_ = true;                         ///< true: `workers_` equals `wanted_`
  bool stop_ = false;

  std::vector<engine::ReceiveWorker*>
      workers_;  ///< workers being polled; changed by the thread only
  std::thread thread_;
};

/// All receive threads of an engine. Used by one thread at a time.
class ReceiveThreads {
 public:
  /// `trace` must outlive this object; null: no trace.
  ReceiveThreads(RankTrace* trace, const PriorityRequest& precedence)
      : trace_(trace), priority_request_(precedence) {}

  /// Gives each worker of the team a different thread, and starts threads if there are too few.
  Status attach(engine::ReceiveTeam& team);
  /// Stops the polling of the team's workers, and returns once no thread polls any of them.
  void detach(engine::ReceiveTeam& team);

 private:
  RankTrace* trace_;
  PriorityRequest priority_request_;
  std::vector<std::unique_ptr<ReceiveThread>> threads_;
  std::size_t next_ = 0;  ///< index of the thread that gets the next team's first worker
};

}  // namespace tutti::runtime
