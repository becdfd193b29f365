// One engine and the threads that share it (docs/glossary.md, "The engine and its threads").
//
// One thread at a time owns the engine and polls it (EngineOwnership). An application thread that
// waits for a request owns the engine itself, because on a busy host a switch to another thread
// would take longer. The progress thread (BackgroundThread) owns the engine while the application
// computes. No thread spins for longer than a few scheduling quanta (YieldPolicy).
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
#include "runtime/progress/overlap_predictor.hpp"
#include "runtime/progress/receive_threads.hpp"
#include "runtime/progress/thread_priority.hpp"
#include "runtime/progress/yield_policy.hpp"
#include "tutti/status.hpp"
#include "tutti/units.hpp"

namespace tutti::runtime {

/// Serves any number of communicators. Thread-safe. If a step of a communicator throws, only this
/// communicator fails, and the engine becomes free again.
class Progress {
 public:
  /// `priority` applies to the library's own threads. The progress thread asks for this priority
  /// when the application first computes during a call, or when the thread starts if the user
  /// demands the priority. The destructor writes `trace`; null: no trace.
  static Result<std::shared_ptr<Progress>> create(const CoreTimes& times,
                                                  const PriorityRequest& priority = {},
                                                  std::unique_ptr<RankTrace> trace = nullptr);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// The trace of this rank; null if the rank is not traced.
  RankTrace* trace() { return trace_.get(); }

  /// A number for a new communicator; no other communicator with this engine has it.
  std::uint16_t next_number() { return ++last_number_; }
  /// Marks as used a communicator number that a peer has proposed; next_number() then does not
  /// return this number.
  void use_number(std::uint16_t number) {
    std::uint16_t last = last_number_;
    while (last < number && !last_number_.compare_exchange_weak(last, number)) {
    }
  }

  /// Serves a communicator until `remove`; the communicator must live until then. `receive_workers`
  /// is the number of receive workers; if it is 0, the owner of the engine receives.
  Status add(engine::CommunicatorContext& context, std::uint32_t receive_workers);
  void remove(engine::CommunicatorContext& context);

  /// Starts an operation. `will_wait` says that the caller waits at once, so that the progress
  /// thread need not wake.
  void submit(engine::CommunicatorContext& context, std::unique_ptr<engine::Operation> operation,
              bool will_wait);
  /// Starts a send or receive, or cancels a receive.
  void submit(engine::CommunicatorContext& context, std::unique_ptr<engine::TaggedCall> call,
              bool will_wait);
  /// Starts an operation from within a completion callback. If the operation is a slot exchange, it
  /// begins before this function returns.
  void go_on(engine::CommunicatorContext& context, std::unique_ptr<engine::Operation> operation);
  /// Wakes the progress thread, because the application computes and does not poll.
  void wake() { background_.wake(); }
  /// The value of BackgroundThread::wakes(). Any thread.
  std::uint64_t wakes() const { return background_.wakes(); }
  /// Waits for the collective or message of `completion`; returns false if the deadline passes
  /// first. The thread polls the engine itself, unless another application thread does.
  /// `waits_again` says that the caller will wait for another call immediately after this one.
  bool wait(const engine::Completion& completion, Instant deadline, bool waits_again = false);
  /// Polls once if the engine is free; returns false if it is not free.
  bool poll();
  /// Polls once if the engine is free and no completion callback can run, because the caller may
  /// hold a lock that a callback also takes. Wakes the progress thread in any case.
  void poll_quietly();
  /// Declares that from now on completions may run callbacks of the application.
  void expect_callbacks() { callbacks_.store(true, std::memory_order_relaxed); }
  /// Calls a completion callback of the application at normal priority. If the callback throws, the
  /// exception is logged.
  void call_application(const std::function<void(const Status&)>& callback, const Status& status);
  /// True if the calling thread owns the engine, which is so within a completion callback.
  bool caller_owns_engine() const { return ownership_.owned_by_caller(); }
  /// False within a completion callback, which must not wait for calls, of whatever engine.
  bool caller_may_wait() const { return !caller_owns_engine() && !in_callback(); }
  /// False within a completion callback of another engine. Its thread owns that engine, so it must
  /// not wait for this one: the owner of this engine may wait for that one.
  bool caller_may_enter() const { return caller_owns_engine() || !in_callback(); }
  /// Runs `work` while no other thread owns the engine.
  template <typename Work>
  auto with_engine(Work&& work) {
    if (caller_owns_engine()) {
      engine_.on_change();
      return work();
    }
    const EngineOwner owner(*this);
    // on_change() sets a flag that an owner clears. This thread must own the engine first, so that
    // no other owner clears the flag before `work` runs.
    engine_.on_change();
    return work();
  }

 private:
  /// Takes the engine for an application thread in its constructor and releases it in its
  /// destructor.
  class EngineOwner {
   public:
    explicit EngineOwner(Progress& progress) : progress_(progress) { progress_.acquire(); }
    /// The calling thread must have taken the engine already.
    EngineOwner(Progress& progress, std::adopt_lock_t) : progress_(progress) {}
    ~EngineOwner() { progress_.release(); }
    EngineOwner(const EngineOwner&) = delete;
    EngineOwner& operator=(const EngineOwner&) = delete;

   private:
    Progress& progress_;
  };
  class InlineOwner;
  enum class Turn : std::uint8_t { taken, retry, expired };
  /// The result is `unknown` if another thread owns the engine or waits for it.
  enum class CallsInFlight : std::uint8_t { none, some, unknown };

  Progress(const CoreTimes& times, const PriorityRequest& priority,
           std::unique_ptr<RankTrace> trace);

  static bool& in_callback();
  void acquire();
  void take(EngineOwnership::Lock& lock);
  void release();
  bool poll_without_callbacks();
  void leave_to_background(bool polled, std::uint64_t bytes);
  CallsInFlight calls_in_flight();
  bool poll_until(const engine::Completion& completion, Instant deadline);
  Turn take_turn(const engine::Completion& completion, Instant deadline, bool first);
  void own_until(const engine::Completion& completion, Instant deadline);
  void hand_over(engine::CommunicatorContext& context,
                 std::unique_ptr<engine::Operation> operation);
  template <typename Step>
  bool with_inline_engine(engine::CommunicatorContext& context, Step&& step);
  bool spin_inline(const engine::Completion& completion, Instant deadline);
  observe::TraceLog* engine_log() { return trace_ == nullptr ? nullptr : &trace_->engine_owner(); }
  Status start_workers(engine::CommunicatorContext& context, std::uint32_t receive_workers);
  void stop_workers(engine::CommunicatorContext& context);

  std::unique_ptr<RankTrace> trace_;
  EnginePoller engine_;
  EngineOwnership ownership_;
  YieldPolicy yields_;
  OverlapPredictor overlap_;
  std::atomic<bool> callbacks_{false};
  std::atomic<std::uint16_t> last_number_{0};
  /// Threads of the receive workers; used by the owner of the engine.
  ReceiveThreads receive_threads_;
  BackgroundThread background_;
};

}  // namespace tutti::runtime
