// Who drives the engine, and how it waits.
//
// One thread at a time polls. An application thread that waits for a request drives by itself:
// nothing is faster on a busy host than the thread that needs the result. A background thread
// drives when no application thread does, so that collectives progress, and peers are answered,
// while the application computes. Where nothing is to be done it watches the network without
// holding the engine, so that an application thread takes over without waking it. Nobody spins for
// longer than a few scheduling quanta: with more ranks than cores a spinning rank would hold up the
// one it waits for. Nor does an application thread work for long there, while it waits, without
// letting the others go on.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "engine/core/communicator_context.hpp"
#include "observe/trace_log.hpp"
#include "runtime/diagnostics/rank_trace.hpp"
#include "runtime/progress/overlap_predictor.hpp"
#include "runtime/progress/realtime_budget.hpp"
#include "runtime/progress/receive_threads.hpp"
#include "runtime/progress/thread_priority.hpp"
#include "tutti/status.hpp"
#include "tutti/units.hpp"

namespace tutti::runtime {

/// What a driver takes of its core at a time.
struct CoreTimes {
  Nanoseconds spin{};                            ///< polling an idle network, before it blocks
  Nanoseconds yield_after = Nanoseconds::max();  ///< working while it waits, before others go on
  /// The same before it has slept once. Where a collective begins all of the core's ranks have
  /// something to send, and the slowest start is everybody's. None at all where an operation says
  /// that all had better begin together.
  Nanoseconds first_yield_after = Nanoseconds::max();
  /// Of the time, in which it may go before all who compute.
  double first_share = 0;
};

/// Serves any number of communicators, datagram by datagram (K12). Thread-safe.
class Progress {
 public:
  /// `precedence`: of its own threads; the background thread's from the first nonblocking
  /// collective on, or at once where it is demanded. `trace`: of all that it serves, written when
  /// that is over; null: none.
  static Result<std::shared_ptr<Progress>> create(const CoreTimes& times,
                                                  const PriorityRequest& precedence = {},
                                                  std::unique_ptr<RankTrace> trace = nullptr);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Null where nothing is traced.
  RankTrace* trace() { return trace_.get(); }

  /// Takes a communicator into the round; it must outlive its removal. `receive_workers`: threads
  /// that receive for it; 0: whoever drives does.
  Status add(engine::CommunicatorContext& context, std::uint32_t receive_workers);
  void remove(engine::CommunicatorContext& context);

  /// Hands over an operation. `will_wait`: the caller waits at once, so the background thread need
  /// not be woken.
  void submit(engine::CommunicatorContext& context, std::unique_ptr<engine::Operation> operation,
              bool will_wait);
  /// Hands over what follows, from within a completion callback: begun there and then where it
  /// meets at a board.
  void go_on(engine::CommunicatorContext& context, std::unique_ptr<engine::Operation> operation);
  /// Has the background thread drive, for an application that does not.
  void wake();
  /// Drives, or waits for whoever drives, until the completion is done or the deadline passes;
  /// returns whether it is done.
  bool wait(const engine::Completion& completion, Instant deadline);
  /// One round, if nobody else is driving.
  void poll();
  /// From now on completions may run the caller's code.
  void expect_callbacks() { callbacks_.store(true, std::memory_order_relaxed); }
  /// From within a completion: calls what the caller wants called, which may wait for threads that
  /// compute and so does not go before them.
  void call_application(const std::function<void(const Status&)>& callback, const Status& status);
  /// Whether the calling thread drives, that is, calls from within a completion callback.
  bool caller_owns_engine() const;
  /// Runs `work` while nobody else drives.
  template <typename Work>
  auto with_engine(Work&& work) {
    if (caller_owns_engine()) return work();
    EngineOwner driver(*this);
    return work();
  }

 private:
  /// Holds the right to drive.
  class EngineOwner {
   public:
    explicit EngineOwner(Progress& progress) : progress_(progress) { progress_.acquire(); }
    /// The calling thread has it already.
    EngineOwner(Progress& progress, std::adopt_lock_t) : progress_(progress) {}
    ~EngineOwner() { progress_.release(); }
    EngineOwner(const EngineOwner&) = delete;
    EngineOwner& operator=(const EngineOwner&) = delete;

   private:
    Progress& progress_;
  };
  /// Holds it for a step of one communicator, while the background thread's watch goes on.
  class InlineOwner {
   public:
    explicit InlineOwner(Progress& progress);
    ~InlineOwner();
    InlineOwner(const InlineOwner&) = delete;
    InlineOwner& operator=(const InlineOwner&) = delete;

   private:
    Progress& progress_;
  };

  Progress(const CoreTimes& times, const PriorityRequest& precedence,
           std::unique_ptr<RankTrace> trace);
  Status open();
  Status start_background();

  void acquire();
  void await_turn(std::unique_lock<std::mutex>& lock);
  void release();
  void take(std::unique_lock<std::mutex>& lock);
  void let_watch_hear(bool on);
  bool poll_all();
  bool poll_busy();
  template <typename Step>
  bool with_inline_engine(engine::CommunicatorContext& context, Step&& step);
  bool spin_inline(const engine::Completion& completion, Instant deadline);
  bool prepare_wait(Instant& deadline);
  void after_wait();
  void block(Instant deadline);
  void block_and_trace(Instant deadline, observe::BusyTrace& busy);
  void notify_owner();
  observe::TraceLog* driver_log();
  Status start_workers(engine::CommunicatorContext& context, std::uint32_t receive_workers);
  void stop_workers(engine::CommunicatorContext& context);
  bool has_news() const;
  bool begins_together() const;
  Nanoseconds yield_after(bool slept) const;
  Nanoseconds spin(bool slept) const;
  Instant next_deadline() const;
  void run_background();
  Instant drive_in_background();
  Instant drive_contained();
  bool watch();
  void go_first();
  void report_priority();
  void set_priority(bool realtime);
  void enforce_budget(bool worked);
  bool background_may_drive(std::unique_lock<std::mutex>& lock);

  CoreTimes times_;
  PriorityRequest priority_request_;
  GrantedPriority
      granted_;  ///< of the background thread; used by the driver only, once that has started
  std::unique_ptr<RankTrace> trace_;
  int epoll_ = -1;
  int owner_event_ = -1;  ///< wakes whoever drives and blocks
  int watch_ =
      -1;  ///< of the background thread: epoll_, where it is armed, background_event_ and timer_
  int background_event_ = -1;  ///< wakes the background thread from its watch
  int timer_ = -1;             ///< ends its watch, where it is not armed

  std::mutex mutex_;                 ///< guards the flags below, never held while polling
  std::condition_variable changed_;  ///< a driver left, or a completion that others wait for came
  std::condition_variable parked_;   ///< wakes the background thread
  bool driving_ = false;
  bool background_driving_ = false;
  bool wake_background_ = false;
  bool watching_ = false;  ///< the background thread waits for news, without holding the engine
  bool armed_ = false;     ///< and drives when there are some: nobody has taken over since
  std::atomic<bool> callbacks_{false};
  /// The application has begun a collective and gone on.
  std::atomic<bool> computes_meanwhile_{false};
  OverlapPredictor habit_;
  bool briefly_ = false;  ///< the background thread drives only until what is due is done
  bool stop_ = false;
  Instant due_ = kNever;  ///< when the engine must be polled, as the last driver left it
  /// By application threads that wait or poll, not by those that only look: tells the background
  /// that they are active.
  std::uint64_t drives_ = 0;
  static constexpr std::uint64_t kNobodyDrove = UINT64_MAX;
  std::uint64_t drives_left_asleep_ = kNobodyDrove;  ///< when the watch was left asleep last
  std::atomic<int> wanted_{0};  ///< application threads that want to drive, or exclude driving
  std::atomic<int> waiters_{0};
  std::atomic<bool> asleep_{false};  ///< whoever drives; kept where there are receive workers

  std::vector<engine::CommunicatorContext*> contexts_;  ///< used by the driver only
  std::uint32_t rounds_ = 0;                            ///< likewise: since all were polled
  bool sendable_watched_ = false;                       ///< likewise
  bool left_asleep_ = false;                            ///< likewise: by a driver that took over
  bool watch_hears_ = false;                            ///< likewise: watch_ tells of epoll_
  bool went_first_ = false;    ///< used by the background thread only: it has asked for precedence
  bool may_go_first_ = false;  ///< likewise: and may go before all
  RealtimeBudget budget_;      ///< likewise
  std::thread background_;
  ReceiveThreads receive_threads_;  ///< used by the driver only
};

}  // namespace tutti::runtime
