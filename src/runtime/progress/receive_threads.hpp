// The threads of the receive workers (K8, K9, K12): each polls the workers that it was given, of
// any number of communicators, batch by batch, and sleeps on their sockets when nothing arrives.
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
  /// `log`: of what it does; null: none. Outlives it.
  static Result<std::unique_ptr<ReceiveThread>> create(observe::TraceLog* log,
                                                       const PriorityRequest& precedence);
  ~ReceiveThread();
  ReceiveThread(const ReceiveThread&) = delete;
  ReceiveThread& operator=(const ReceiveThread&) = delete;

  /// Polls a worker from now on.
  Status attach(engine::ReceiveWorker& worker);
  /// Returns when it is not polled any more; a worker that is not polled is left alone.
  void detach(engine::ReceiveWorker& worker);

 private:
  ReceiveThread(observe::TraceLog* log, const PriorityRequest& precedence)
      : log_(log), priority_request_(precedence) {}
  Status open();
  void run();
  bool take_changes();
  void wait();
  /// Wakes the thread where it sleeps; any thread.
  void rouse();
  void notify_owner();
  /// Has the thread take over `wanted_`, and waits for that.
  void apply(std::unique_lock<std::mutex>& lock);

  observe::TraceLog* log_;
  PriorityRequest priority_request_;
  int epoll_ = -1;
  int owner_event_ = -1;
  std::atomic<bool> asleep_{false};
  std::atomic<bool> changed_{false};

  std::mutex mutex_;  ///< guards the next four
  std::condition_variable applied_;
  std::vector<engine::ReceiveWorker*> wanted_;
  bool current_ = true;  ///< `workers_` is as wanted
  bool stop_ = false;

  std::vector<engine::ReceiveWorker*> workers_;  ///< used by the thread only
  std::thread thread_;
};

/// Used by one thread at a time.
class ReceiveThreads {
 public:
  /// `trace` null: none; outlives it.
  ReceiveThreads(RankTrace* trace, const PriorityRequest& precedence)
      : trace_(trace), priority_request_(precedence) {}

  /// Deals a team's workers out to as many threads, starting those that there are not yet.
  Status attach(engine::ReceiveTeam& team);
  /// Returns when no thread polls any of the team's workers.
  void detach(engine::ReceiveTeam& team);

 private:
  RankTrace* trace_;
  PriorityRequest priority_request_;
  std::vector<std::unique_ptr<ReceiveThread>> threads_;
  std::size_t next_ = 0;  ///< where the next team begins: round-robin (K12)
};

}  // namespace tutti::runtime
