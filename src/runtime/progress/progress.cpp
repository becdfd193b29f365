#include "runtime/progress/progress.hpp"

#include <sched.h>

#include <algorithm>
#include <utility>

#include "observe/log.hpp"
#include "runtime/progress/clock.hpp"
#include "runtime/progress/exception_status.hpp"

namespace tutti::runtime {

namespace {

// A thread that has released the engine for another thread waits until the other thread takes the
// engine, but no longer than this time.
constexpr std::chrono::milliseconds kHandoverWait{10};

// A call longer than this wakes the progress thread even if the application is expected to wait at
// once. If the application computes instead, a long call would lose more time than the wake-up
// costs.
constexpr std::uint64_t kShortCallBytes = 16 * 1024;

bool is_done(const engine::Completion& completion) {
  return completion.done.load(std::memory_order_acquire);
}

/// The priority of receive threads. They do not get real-time priority, because they also serve
/// blocking collectives, during which no thread computes.
PriorityRequest of_workers(PriorityRequest priority) {
  priority.realtime = false;
  return priority;
}

}  // namespace

Result<std::shared_ptr<Progress>> Progress::create(const CoreTimes& times,
                                                   const PriorityRequest& priority,
                                                   std::unique_ptr<RankTrace> trace) {
  std::shared_ptr<Progress> progress(new Progress(times, priority, std::move(trace)));
  if (Status status = progress->engine_.open(); !status) return status;
  if (Status status = progress->background_.start(); !status) return status;
  return progress;
}

Progress::Progress(const CoreTimes& times, const PriorityRequest& priority,
                   std::unique_ptr<RankTrace> trace)
    : trace_(std::move(trace)),
      yields_(times),
      receive_threads_(trace_.get(), of_workers(priority)),
      background_(ownership_, engine_, priority, times.realtime_share, engine_log()) {}

Progress::~Progress() {
  background_.stop();
  if (!trace_) return;
  if (Status status = trace_->write(); !status) observe::complain(status.message());
}

// ---- communicators ------------------------------------------------------------------------------

Status Progress::start_workers(engine::CommunicatorContext& context,
                               std::uint32_t receive_workers) {
  if (receive_workers == 0) return {};
  if (Status status = context.receiver().use_workers(receive_workers); !status) return status;
  context.receiver().team()->on_news([this] { engine_.notify_sleeping_owner(); });
  Status status = guarded([&] { return receive_threads_.attach(*context.receiver().team()); });
  if (!status.ok()) stop_workers(context);
  return status;
}

void Progress::stop_workers(engine::CommunicatorContext& context) {
  if (!context.receiver().has_workers()) return;
  receive_threads_.detach(*context.receiver().team());
  context.receiver().stop_workers();
}

Status Progress::add(engine::CommunicatorContext& context, std::uint32_t receive_workers) {
  return with_engine([&]() -> Status {
    if (Status status = start_workers(context, receive_workers); !status) return status;
    if (Status status = guarded([&] { return engine_.add(context); }); !status) {
      stop_workers(context);
      return status;
    }
    background_.report_priority();
    return {};
  });
}

void Progress::remove(engine::CommunicatorContext& context) {
  with_engine([&] {
    stop_workers(context);
    engine_.remove(context);
  });
}

// ---- ownership of an application thread ---------------------------------------------------------

void Progress::acquire() {
  EngineOwnership::Lock lock = ownership_.lock();
  if (ownership_.owner() != Owner::none)
    ownership_.await_release(lock, [this] { engine_.notify_owner(); });
  take(lock);
}

/// Takes the free engine and releases the lock. If the progress thread sleeps on the network, it
/// need not wake, because this thread now handles what arrives.
void Progress::take(EngineOwnership::Lock& lock) {
  const bool watched = ownership_.state().watch == Watch::armed;
  ownership_.apply(EngineEvent::application_takes);
  ownership_.set_owned_by_caller(true);
  lock.unlock();
  if (watched) background_.on_watch_disarmed();
}

void Progress::release() {
  ownership_.set_owned_by_caller(false);
  // The progress thread gets the engine's next deadline: lost messages must be retransmitted even
  // while the application computes.
  const Instant due = engine_.next_deadline();
  background_.before_application_leaves();
  {
    const EngineOwnership::Lock lock = ownership_.lock();
    background_.on_application_leaves(due);
    ownership_.apply(EngineEvent::application_leaves);
  }
  ownership_.notify_released();
}

/// Owns the engine for one short step, if the engine is free. A sleeping progress thread is not
/// told when the step ends, because the step changes nothing for which that thread must wake.
class Progress::InlineOwner {
 public:
  explicit InlineOwner(Progress& progress) : ownership_(progress.ownership_) {
    const EngineOwnership::Lock lock = ownership_.lock();
    owns_ = ownership_.owner() == Owner::none && !ownership_.wanted();
    if (!owns_) return;
    ownership_.apply(EngineEvent::application_steps_inline);
    progress.background_.count_application_round();
    ownership_.set_owned_by_caller(true);
  }
  ~InlineOwner() {
    if (!owns_) return;
    ownership_.set_owned_by_caller(false);
    {
      const EngineOwnership::Lock lock = ownership_.lock();
      ownership_.apply(EngineEvent::application_leaves);
    }
    ownership_.notify_released();
  }
  InlineOwner(const InlineOwner&) = delete;
  InlineOwner& operator=(const InlineOwner&) = delete;

  bool owns() const { return owns_; }

 private:
  EngineOwnership& ownership_;
  bool owns_ = false;
};

/// Runs a step that touches only one slot exchange and its collective; returns false if the engine
/// is not free.
template <typename Step>
bool Progress::with_inline_engine(engine::CommunicatorContext& context, Step&& step) {
  const InlineOwner owner(*this);
  if (!owner.owns()) return false;
  engine_.awaken(context);
  EnginePoller::run_contained(context, std::forward<Step>(step));
  return true;
}

// ---- starting operations ------------------------------------------------------------------------

void Progress::hand_over(engine::CommunicatorContext& context,
                         std::unique_ptr<engine::Operation> operation) {
  context.operations().submit(std::move(operation));
  engine_.on_submission(context);
}

void Progress::submit(engine::CommunicatorContext& context,
                      std::unique_ptr<engine::Operation> operation, bool will_wait) {
  const std::uint64_t bytes = operation->description().bytes;
  if (operation->meets()) {
    const std::shared_ptr<engine::Completion> completion = operation->completion();
    completion->inline_poll_context = &context;
    with_inline_engine(context, [&] {
      context.try_start_inline(now(), operation);
      return true;
    });
    if (is_done(*completion)) return;
  }
  if (operation) hand_over(context, std::move(operation));
  if (will_wait) return;
  const bool computes = overlap_.begun(now());
  // This thread polls once to send the first data, because the progress thread would have to wake
  // up before it could send.
  leave_to_background(poll_without_callbacks(), bytes);
  if (!computes) return;
  // The other ranks of this core should begin the collective before this rank computes.
  ::sched_yield();
  overlap_.yielded(now());
}

void Progress::submit(engine::CommunicatorContext& context,
                      std::unique_ptr<engine::TaggedCall> call, bool will_wait) {
  const std::shared_ptr<engine::Completion> completion = call->completion;
  const std::uint64_t bytes = call->buffer.size();
  context.tagged().submit(std::move(call));
  engine_.on_submission(context);
  if (will_wait) return;
  // Polls once. This completes an eager send, so that the progress thread need not wake for it.
  const bool polled = poll_without_callbacks();
  if (is_done(*completion)) return;
  overlap_.started(now());
  leave_to_background(polled, bytes);
}

/// Wakes the progress thread, unless the call is short, this thread has polled the engine, and the
/// application is expected to wait at once. In that case the progress thread would compete with the
/// waiting thread for the engine.
void Progress::leave_to_background(bool polled, std::uint64_t bytes) {
  if (!polled || bytes > kShortCallBytes || !overlap_.waits_soon()) return wake();
  background_.expect_wait(now() + OverlapPredictor::kSoon);
}

void Progress::go_on(engine::CommunicatorContext& context,
                     std::unique_ptr<engine::Operation> operation) {
  if (operation->meets() && caller_owns_engine()) {
    engine_.awaken(context);
    context.try_start_inline(now(), operation);
  }
  if (operation) hand_over(context, std::move(operation));
}

// ---- waiting for completions --------------------------------------------------------------------

/// Polls a slot exchange for at most kInlineSpin, and only while the engine has nothing else to do.
/// Returns true if the collective is complete.
bool Progress::spin_inline(const engine::Completion& completion, Instant deadline) {
  const Instant begin = now();
  const Instant end = std::min(deadline, begin + YieldPolicy::kInlineSpin);
  YieldPolicy::CoreTurn turn(yields_, begin);
  for (Instant at = begin; at < end; at = now()) {
    engine::CommunicatorContext* const context = completion.inline_poll_context;
    if (context == nullptr) break;
    bool goes_on = false;
    const auto step = [&] { return goes_on = context->poll_inline(at); };
    if (is_done(completion) || !with_inline_engine(*context, step)) break;
    turn.polled(is_done(completion));
    if (is_done(completion) || !goes_on) break;
    turn.end_if_due(at);
  }
  return is_done(completion);
}

bool Progress::wait(const engine::Completion& completion, Instant deadline, bool waits_again) {
  if (overlap_.start_pending()) overlap_.waits(now());
  const bool unattended = background_.on_wait();
  const bool done = poll_until(completion, deadline);
  if (waits_again) {
    if (unattended) background_.expect_wait(now() + OverlapPredictor::kSoon);
  } else if (unattended || overlap_.waited_soon()) {
    const CallsInFlight others = calls_in_flight();
    // Other calls are in flight, so the application is likely to compute next.
    if (others == CallsInFlight::some) overlap_.forget_waits();
    if (unattended && others != CallsInFlight::none) wake();
  }
  return done;
}

Progress::CallsInFlight Progress::calls_in_flight() {
  const InlineOwner owner(*this);
  if (!owner.owns()) return CallsInFlight::unknown;
  return engine_.busy() ? CallsInFlight::some : CallsInFlight::none;
}

bool Progress::poll_until(const engine::Completion& completion, Instant deadline) {
  if (completion.inline_poll_context.load() != nullptr && spin_inline(completion, deadline))
    return true;
  for (bool first = true; !is_done(completion); first = false) {
    const Turn turn = take_turn(completion, deadline, first);
    if (turn == Turn::expired) return is_done(completion);
    if (turn == Turn::retry) continue;
    own_until(completion, deadline);
    if (!is_done(completion) && now() >= deadline) return false;
  }
  return true;
}

/// Takes the engine for an application thread. If another application thread owns it or is about to
/// take it, waits for a limited time instead.
Progress::Turn Progress::take_turn(const engine::Completion& completion, Instant deadline,
                                   bool first) {
  EngineOwnership::Lock lock = ownership_.lock();
  const auto again = [&] { return now() < deadline ? Turn::retry : Turn::expired; };
  if (ownership_.owner() == Owner::background) {
    ownership_.await_release(lock, [this] { engine_.notify_owner(); });
  } else if (ownership_.owner() == Owner::application) {
    // The owner may sleep without knowing of this thread's call, so this thread notifies the owner.
    // With Watch::armed the owner runs an inline step and does not sleep, so it needs no
    // notification.
    if (first && ownership_.state().watch != Watch::armed) engine_.notify_owner();
    const auto left = std::max(deadline - now(), Nanoseconds(0));
    ownership_.await_change(lock, std::min(left, EngineOwnership::kMaxWait), [&] {
      return is_done(completion) || ownership_.owner() == Owner::none;
    });
    if (ownership_.owner() == Owner::none || is_done(completion)) return Turn::retry;
    return again();
  } else if (ownership_.wanted()) {
    // This thread has just released the engine for another thread, which has not taken it yet.
    ownership_.await_change(lock, kHandoverWait, [&] {
      return ownership_.owner() != Owner::none || !ownership_.wanted();
    });
    return again();
  }
  background_.count_application_round();
  take(lock);
  return Turn::taken;
}

/// Polls as owner until the call is complete, the deadline has passed or another thread wants the
/// engine. The other thread gets the engine at once, because this call may never complete.
void Progress::own_until(const engine::Completion& completion, Instant deadline) {
  const EngineOwner owner(*this, std::adopt_lock);
  Instant idle_since = now();
  YieldPolicy::CoreTurn turn(yields_, idle_since);
  bool slept = false;
  observe::BusyTrace busy(engine_log(), observe::TraceKind::owner, "owner: application thread");
  while (!is_done(completion) && !ownership_.wanted()) {
    busy.polling();
    const bool worked = engine_.poll_busy();
    busy.polled(worked);
    turn.polled(worked);
    if (is_done(completion)) break;
    const Instant at = now();
    if (at >= deadline) break;
    if (worked) {
      idle_since = at;
      ownership_.notify_waiters();
      if (turn.length(at) < yields_.yield_after(slept, engine_)) continue;
    }
    if (at - idle_since < yields_.spin(slept, engine_)) {
      turn.end_if_due(at);
    } else {
      engine_.block(deadline, busy);
      idle_since = now();
      turn.begin(idle_since);
      slept = true;
    }
  }
}

bool Progress::poll() {
  {
    EngineOwnership::Lock lock = ownership_.lock();
    if (ownership_.owner() != Owner::none) return false;
    background_.count_application_round();
    take(lock);
  }
  const EngineOwner owner(*this, std::adopt_lock);
  engine_.poll_all();
  return true;
}

bool Progress::poll_without_callbacks() {
  return !callbacks_.load(std::memory_order_relaxed) && poll();
}

void Progress::poll_quietly() {
  (void)poll_without_callbacks();
  wake();
}

/// Whether the calling thread runs a completion callback.
bool& Progress::in_callback() {
  thread_local bool inside = false;
  return inside;
}

void Progress::call_application(const std::function<void(const Status&)>& callback,
                                const Status& status) {
  struct Inside {
    const bool before = std::exchange(in_callback(), true);
    ~Inside() { in_callback() = before; }
  };
  const Inside inside;
  background_.run_at_normal_priority([&] { logged([&] { callback(status); }); });
}

}  // namespace tutti::runtime
