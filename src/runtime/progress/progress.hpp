// One engine and the threads that share it (progress in docs/glossary.md).
//
// One thread at a time owns the engine and polls it (EngineOwnership). An application thread that
// waits for a request owns it itself: on a busy host nothing is faster than the thread that needs
// the result. The background thread owns it while the application computes. No thread spins for
// longer than a few scheduling quanta (YieldPolicy).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>

#include "engine/core/communicator_context.hpp"
#include "observe/trace_log.hpp"
#include "runtime/diagnostics/rank_trace.hpp"
#include "runtime/progress/background_thread.hpp"
#include "runtime/progress/engine_ownership.hpp"
#include "runtime/progress/engine_poller.hpp"
#include "runtime/progress/receive_threads.hpp"
#include "runtime/progress/thread_priority.hpp"
#include "runtime/progress/yield_policy.hpp"
#include "tutti/status.hpp"
#include "tutti/units.hpp"

namespace tutti::runtime {

/// Serves any number of communicators. Thread-safe. An exception in a step of a communicator fails
/// that communicator; no exception leaves the engine owned.
class Progress {
 public:
  /// `priority`: of its own threads; the background thread asks for it with the first nonblocking
  /// collective, or at once where it is demanded. `trace`: written when the engine ends; null: none.
  static Result<std::shared_ptr<Progress>> create(const CoreTimes& times,
                                                  const PriorityRequest& priority = {},
                                                  std::unique_ptr<RankTrace> trace = nullptr);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Null where nothing is traced.
  RankTrace* trace() { return trace_.get(); }

  /// Serves a communicator from now on, until `remove`; it outlives that. `receive_workers`: threads
  /// that receive for it; 0: the owner of the engine receives.
  Status add(engine::CommunicatorContext& context, std::uint32_t receive_workers);
  void remove(engine::CommunicatorContext& context);

  /// Starts an operation. `will_wait`: the caller waits at once, and the background thread need not
  /// wake.
  void submit(engine::CommunicatorContext& context, std::unique_ptr<engine::Operation> operation,
              bool will_wait);
  /// Starts an operation from a completion callback: a slot exchange begins within this call.
  void go_on(engine::CommunicatorContext& context, std::unique_ptr<engine::Operation> operation);
  /// Has the background thread make progress, for an application that does not.
  void wake() { background_.wake(); }
  /// Makes progress, or waits for the thread that does, until the completion is done or the
  /// deadline has passed; returns whether it is done.
  bool wait(const engine::Completion& completion, Instant deadline);
  /// One round, if the engine is free.
  void poll();
  /// From now on completions may run the application's code.
  void expect_callbacks() { callbacks_.store(true, std::memory_order_relaxed); }
  /// Calls an application's callback, from within a completion. Runs at normal priority; what the
  /// callback throws is logged.
  void call_application(const std::function<void(const Status&)>& callback, const Status& status);
  /// Whether the calling thread owns the engine: true within a completion callback.
  bool caller_owns_engine() const { return ownership_.owned_by_caller(); }
  /// Runs `work` while no other thread owns the engine.
  template <typename Work>
  auto with_engine(Work&& work) {
    if (caller_owns_engine()) return work();
    const EngineOwner owner(*this);
    return work();
  }

 private:
  /// Holds the engine for an application thread.
  class EngineOwner {
   public:
    explicit EngineOwner(Progress& progress) : progress_(progress) { progress_.acquire(); }
    /// The calling thread has taken it already.
    EngineOwner(Progress& progress, std::adopt_lock_t) : progress_(progress) {}
    ~EngineOwner() { progress_.release(); }
    EngineOwner(const EngineOwner&) = delete;
    EngineOwner& operator=(const EngineOwner&) = delete;

   private:
    Progress& progress_;
  };
  /// The same for an inline step, beside the background thread's watch.
  class InlineOwner;
  enum class Turn : std::uint8_t { taken, retry, expired };

  Progress(const CoreTimes& times, const PriorityRequest& priority,
           std::unique_ptr<RankTrace> trace);

  void acquire();
  void take(EngineOwnership::Lock& lock);
  void release();
  Turn take_turn(const engine::Completion& completion, Instant deadline);
  void own_until(const engine::Completion& completion, Instant deadline);
  template <typename Step>
  bool with_inline_engine(engine::CommunicatorContext& context, Step&& step);
  bool spin_inline(const engine::Completion& completion, Instant deadline);
  observe::TraceLog* engine_log() { return trace_ == nullptr ? nullptr : &trace_->driver(); }
  Status start_workers(engine::CommunicatorContext& context, std::uint32_t receive_workers);
  void stop_workers(engine::CommunicatorContext& context);

  std::unique_ptr<RankTrace> trace_;
  EnginePoller engine_;
  EngineOwnership ownership_;
  YieldPolicy yields_;
  std::atomic<bool> callbacks_{false};
  ReceiveThreads receive_threads_;  ///< used by the owner of the engine
  BackgroundThread background_;
};

}  // namespace tutti::runtime
