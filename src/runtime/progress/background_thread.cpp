#include "runtime/progress/background_thread.hpp"

#include <sys/epoll.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <future>
#include <utility>

#include "base/error.hpp"
#include "device/posix/blocked_signals.hpp"
#include "device/posix/event_wait.hpp"
#include "runtime/progress/clock.hpp"
#include "runtime/progress/event_descriptor.hpp"
#include "runtime/progress/exception_status.hpp"

namespace tutti::runtime {

namespace {

// Shortest and longest interval at which the parked thread checks whether application threads still
// poll the engine.
constexpr Nanoseconds kParkMin{1'000'000};
constexpr Nanoseconds kParkMax{50'000'000};
// Interval at which the parked thread checks whether work of the engine is due. A wake-up of the
// thread by each collective would cost the collective more time.
constexpr Nanoseconds kParkPollInterval{4'000'000};
// Longest sleep of the progress thread before it checks again whether an inline step has ended, in
// case the notification of the end is lost.
constexpr std::chrono::milliseconds kInlineStepWait{10};

}  // namespace

Status BackgroundThread::start() {
  watch_epoll_ = device::Descriptor(::epoll_create1(EPOLL_CLOEXEC));
  wake_event_ = make_event();
  timer_ = device::Descriptor(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!watch_epoll_.valid() || !wake_event_.valid() || !timer_.valid()) {
    return system_failure(errno, "creating the progress thread's descriptors");
  }
  const auto add = [this](int fd, std::uint32_t events) {
    epoll_event event{.events = events, .data = {.fd = fd}};
    return ::epoll_ctl(watch_epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0;
  };
  if (!add(wake_event_.get(), EPOLLIN) || !add(timer_.get(), EPOLLIN) ||
      !add(engine_.descriptor(), 0)) {
    return system_failure(errno, "watching the progress thread's descriptors");
  }
  std::promise<Status> started;
  std::future<Status> answer = started.get_future();
  const device::BlockedSignals blocked;
  thread_ = std::thread([this, started = std::move(started)]() mutable {
    started.set_value(guarded([this]() -> Status { return priority_.start().status(); }));
    run();
  });
  return answer.get();
}

void BackgroundThread::stop() {
  if (!thread_.joinable()) return;
  {
    const EngineOwnership::Lock lock = ownership_.lock();
    stop_ = true;
  }
  parked_.notify_all();
  engine_.notify_owner();
  signal_event(wake_event_);
  thread_.join();
}

void BackgroundThread::wake() {
  EngineState state;
  {
    const EngineOwnership::Lock lock = ownership_.lock();
    state = ownership_.state();
    request_engine();
  }
  if (state.owner != Owner::none) {
    engine_.notify_owner();
  } else if (state.watch != Watch::off) {
    signal_event(wake_event_);
  } else {
    parked_.notify_one();
  }
}

// ---- application threads that take the engine ---------------------------------------------------

void BackgroundThread::on_watch_disarmed() {
  watch_engine(false);
  left_asleep_ = true;
  engine_.after_wait();
}

void BackgroundThread::before_application_leaves() {
  if (!left_asleep_) return;
  // The progress thread sleeps, and the engine's events no longer wake it. The timer wakes the
  // thread instead; the thread then checks whether the engine needs an owner.
  const itimerspec once{.it_interval = {}, .it_value = {0, kParkMin.count()}};
  (void)::timerfd_settime(timer_.get(), 0, &once, nullptr);
}

void BackgroundThread::on_application_leaves(Instant due) {
  due_ = due;
  if (std::exchange(left_asleep_, false)) rounds_left_asleep_ = application_rounds_;
}

/// Sets whether events of the engine's descriptor wake this thread. Makes a system call only if the
/// setting changes, because a system call before each sleep would cost too much time.
void BackgroundThread::watch_engine(bool on) {
  if (std::exchange(watches_engine_, on) == on) return;
  epoll_event event{.events = on ? std::uint32_t{EPOLLIN} : 0,
                    .data = {.fd = engine_.descriptor()}};
  (void)::epoll_ctl(watch_epoll_.get(), EPOLL_CTL_MOD, engine_.descriptor(), &event);
}

// ---- parking ------------------------------------------------------------------------------------

/// Sleeps until this thread may take the engine (true) or must end (false). It may take a free
/// engine if wake() was called, if work is due, if an expected wait has not come, or if no
/// application thread has used the engine for some time (kParkMin to kParkMax).
bool BackgroundThread::park(EngineOwnership::Lock& lock) {
  auto pause = kParkMin;
  std::uint64_t seen = application_rounds_;
  // If an application thread took and released the engine while this thread slept in watch(), and
  // no application thread has polled the engine since, this thread takes the engine at once.
  const bool slept = std::exchange(rounds_left_asleep_, kNone) == seen;
  Instant until = now() + (slept ? Nanoseconds(0) : pause);
  while (!stop_) {
    // The application has not waited as expected.
    if (expected_wait_.load(std::memory_order_relaxed) <= now() && on_wait()) request_engine();
    brief_ = !wake_requested_;
    const bool due = due_ <= now() && !ownership_.wanted();
    if (ownership_.owner() == Owner::none && (wake_requested_ || due)) return true;
    const Nanoseconds left = until - now();
    if (left.count() > 0) parked_.wait_for(lock, std::min(left, kParkPollInterval));
    if (now() < until) continue;
    brief_ = ownership_.owner() != Owner::none || application_rounds_ != seen;
    if (!brief_) return !stop_;
    seen = application_rounds_;
    pause = std::min(pause * 2, kParkMax);
    until = now() + pause;
  }
  return false;
}

/// Requests the engine for this thread, because the application computes. The caller must hold the
/// lock.
void BackgroundThread::request_engine() {
  application_computes_.store(true, std::memory_order_relaxed);
  wakes_.fetch_add(1, std::memory_order_relaxed);
  wake_requested_ = true;
}

void BackgroundThread::run() {
  EngineOwnership::Lock lock = ownership_.lock();
  while (park(lock)) {
    ownership_.apply(EngineEvent::background_takes);
    wake_requested_ = false;
    ownership_.set_owned_by_caller(true);
    lock.unlock();
    const Instant due = own_contained();
    lock.lock();
    // While this thread slept in watch(), an application thread may have taken the engine.
    if (ownership_.owner() != Owner::background) continue;
    ownership_.set_owned_by_caller(false);
    due_ = due;
    ownership_.apply(EngineEvent::background_leaves);
    ownership_.notify_all();
  }
}

// ---- owning the engine --------------------------------------------------------------------------

/// If own() throws, all communicators fail, but the thread continues. This thread then still owns
/// the engine, because nothing throws while it sleeps in watch().
Instant BackgroundThread::own_contained() {
  try {
    return own();
  } catch (...) {
    engine_.fail_all(status_of_exception());
  }
  return now();
}

/// Polls until stop() is called, or until an application thread wants the engine or has taken it,
/// and then returns kNever. If this thread took the engine only for due work, it stops when that
/// work is done, and returns the time at which the engine must be polled again.
Instant BackgroundThread::own() {
  enforce_budget(false);
  observe::BusyTrace busy(log_, observe::TraceKind::owner, "owner: progress thread");
  while (!ownership_.wanted()) {
    if (application_computes_.load(std::memory_order_relaxed) && priority_.raise())
      report_priority();
    busy.polling();
    const bool worked = engine_.poll_all();
    enforce_budget(true);
    busy.polled(worked);
    if (worked) {
      ownership_.notify_waiters();
      continue;
    }
    {
      const EngineOwnership::Lock lock = ownership_.lock();
      if (stop_) return kNever;
      // A thread that took the engine only for due work releases it now. Otherwise an application
      // that calls often would find that this thread owns the engine at each call.
      if (brief_ && !wake_requested_)
        return std::max(engine_.next_deadline(), now() + kParkPollInterval);
      brief_ = wake_requested_ = false;
    }
    const Instant since = busy.falls_asleep();
    if (!watch()) return kNever;
    enforce_budget(false);
    busy.wakes(since);
  }
  return kNever;
}

/// Sleeps until the engine has something to do, without owning the engine. Returns true if this
/// thread owns the engine again, and false if an application thread has taken it meanwhile.
bool BackgroundThread::watch() {
  Instant deadline = kNever;
  if (!engine_.prepare_wait(deadline)) return true;
  watch_engine(true);
  {
    const EngineOwnership::Lock lock = ownership_.lock();
    if (ownership_.wanted() || wake_requested_ || stop_) {
      engine_.after_wait();
      return true;
    }
    ownership_.apply(EngineEvent::background_watches);
    ownership_.set_owned_by_caller(false);
  }
  ownership_.notify_waiters();
  const timespec timeout = time_left(deadline);
  std::array<epoll_event, 3> events;
  const int count = device::wait_events(watch_epoll_.get(), events, timeout);
  for (int i = 0; i < count; ++i) {
    if (events[i].data.fd != engine_.descriptor()) clear_event(events[i].data.fd);
  }
  {
    EngineOwnership::Lock lock = ownership_.lock();
    // An application thread may own the engine for an inline step. Inline steps are short, so this
    // thread waits for the end of the step.
    while (ownership_.state() == EngineState{Owner::application, Watch::armed}) {
      ownership_.await_change(lock, kInlineStepWait,
                              [this] { return ownership_.owner() == Owner::none; });
    }
    ownership_.apply(EngineEvent::watch_ends);
    if (ownership_.owner() != Owner::background) return false;
    ownership_.set_owned_by_caller(true);
  }
  engine_.after_wait();
  engine_.clear_notification();
  return true;
}

void BackgroundThread::report_priority() {
  const std::uint64_t level = priority_.counter();
  if (level == 0) return;
  for (engine::CommunicatorContext* context : engine_.contexts())
    context->counters().background_priority = level;
}

/// Applies the budget of real-time priority. Without the budget this thread could starve the
/// application threads for which it waits.
void BackgroundThread::enforce_budget(bool worked) {
  if (!priority_.may_be_realtime() || !priority_.enforce_budget(now(), worked)) return;
  for (engine::CommunicatorContext* context : engine_.contexts())
    ++context->counters().background_budget_exhausted;
}

}  // namespace tutti::runtime
