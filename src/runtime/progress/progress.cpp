#include "runtime/progress/progress.hpp"

#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <future>
#include <utility>

#include "base/error.hpp"
#include "device/posix/event_wait.hpp"
#include "observe/log.hpp"
#include "runtime/progress/clock.hpp"
#include "runtime/progress/exception_status.hpp"

namespace tutti::runtime {

namespace {

// How often a parked background thread looks whether the application still drives by itself.
constexpr Nanoseconds kParkMin{1'000'000};
constexpr Nanoseconds kParkMax{50'000'000};
// How often it looks meanwhile whether something is due that nobody drives. Waking it at the end of
// each collective instead costs that collective 20 us of two cores.
constexpr Nanoseconds kParkPollInterval{4'000'000};
// Who has slept once waits for somebody slow: spinning on takes the core from him.
// Measured: Broadcast of 1 MiB to 8 ranks on 2 cores 2.0 -> 1.5 ms.
constexpr Nanoseconds kSpinAgain{5'000};
// Who waits at a board looks there for so long, and lets others of its core run after each look.
constexpr Nanoseconds kInlineSpin{200'000};
// Blocking is bounded, so that a lost wake-up costs time and nothing else. That of a condition,
// too: pthread_cond_signal of glibc 2.25 to 2.40 wakes nobody once in a very long while.
constexpr Nanoseconds kBlockMax{1'000'000'000};
// The same for a driver that stands aside.
constexpr auto kHandoverWait = std::chrono::milliseconds(10);

// What background_priority says of a thread that goes before all.
constexpr std::uint64_t kBeforeEveryNiceValue = 100;
// How long it may go before all at once. Arrivals of 512 KiB are work of 0.1 to 0.3 ms.
constexpr Nanoseconds kFirstMost{5'000'000};

// Whom this thread drives; null: nobody.
thread_local const Progress* driven_here = nullptr;

void ring(int event_descriptor) {
  const std::uint64_t one = 1;
  (void)!::write(event_descriptor, &one, sizeof one);
}

void silence(int event_descriptor) {
  std::uint64_t rings = 0;
  (void)!::read(event_descriptor, &rings, sizeof rings);
}

void end_after(int timer_descriptor, Nanoseconds time) {
  const itimerspec once{.it_interval = {}, .it_value = {0, time.count()}};
  (void)::timerfd_settime(timer_descriptor, 0, &once, nullptr);
}

/// Whoever receives does so for blocking collectives, too, which nobody computes beside.
PriorityRequest of_workers(PriorityRequest precedence) {
  precedence.realtime = false;
  return precedence;
}

/// Runs a step of a communicator's engine. An exception fails that communicator, with its reason.
template <typename Step>
bool run_contained(engine::CommunicatorContext& context, Step&& step) {
  try {
    return step();
  } catch (const std::exception&) {
    context.fail(status_of_exception());
  }
  return true;  // the next round carries out the failure
}

timespec time_left(Instant deadline) {
  const Nanoseconds left = std::clamp(deadline - now(), Nanoseconds(0), kBlockMax);
  return {left.count() / 1'000'000'000, left.count() % 1'000'000'000};
}

}  // namespace

Result<std::shared_ptr<Progress>> Progress::create(const CoreTimes& times,
                                                   const PriorityRequest& precedence,
                                                   std::unique_ptr<RankTrace> trace) {
  std::shared_ptr<Progress> progress(new Progress(times, precedence, std::move(trace)));
  if (Status status = progress->open(); !status) return status;
  return progress;
}

Progress::Progress(const CoreTimes& times, const PriorityRequest& precedence,
                   std::unique_ptr<RankTrace> trace)
    : times_(times),
      priority_request_(precedence),
      trace_(std::move(trace)),
      budget_(times.first_share, kFirstMost),
      receive_threads_(trace_.get(), of_workers(precedence)) {}

Status Progress::open() {
  epoll_ = ::epoll_create1(EPOLL_CLOEXEC);
  watch_ = ::epoll_create1(EPOLL_CLOEXEC);
  owner_event_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  background_event_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  timer_ = ::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
  if (epoll_ < 0 || watch_ < 0 || owner_event_ < 0 || background_event_ < 0 || timer_ < 0) {
    return system_failure(errno, "creating the progress descriptors");
  }
  epoll_event event{.events = EPOLLIN, .data = {.ptr = nullptr}};
  epoll_event bell{.events = EPOLLIN, .data = {.fd = background_event_}};
  epoll_event timer{.events = EPOLLIN, .data = {.fd = timer_}};
  epoll_event none{.events = 0, .data = {.fd = epoll_}};
  if (::epoll_ctl(epoll_, EPOLL_CTL_ADD, owner_event_, &event) != 0 ||
      ::epoll_ctl(watch_, EPOLL_CTL_ADD, background_event_, &bell) != 0 ||
      ::epoll_ctl(watch_, EPOLL_CTL_ADD, timer_, &timer) != 0 ||
      ::epoll_ctl(watch_, EPOLL_CTL_ADD, epoll_, &none) != 0) {
    return system_failure(errno, "watching the wake-up descriptors");
  }
  return start_background();
}

/// Ends when the thread has told what the scheduler gives it.
Status Progress::start_background() {
  std::promise<Result<GrantedPriority>> asked;
  std::future<Result<GrantedPriority>> answer = asked.get_future();
  background_ = std::thread([this, asked = std::move(asked)]() mutable {
    asked.set_value(
        apply_priority(priority_request_.demanded ? priority_request_ : PriorityRequest{}));
    run_background();
  });
  const Result<GrantedPriority> granted = answer.get();
  if (!granted) return granted.status();
  granted_ = *granted;
  return {};
}

Progress::~Progress() {
  if (background_.joinable()) {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    parked_.notify_all();
    notify_owner();
    ring(background_event_);
    background_.join();
  }
  for (const int fd : {owner_event_, background_event_, timer_, watch_, epoll_}) {
    if (fd >= 0) ::close(fd);
  }
  if (!trace_) return;
  if (Status status = trace_->write(); !status) observe::complain(status.message());
}

observe::TraceLog* Progress::driver_log() {
  return trace_ == nullptr ? nullptr : &trace_->driver();
}

Status Progress::start_workers(engine::CommunicatorContext& context,
                               std::uint32_t receive_workers) {
  if (receive_workers == 0) return {};
  if (Status status = context.use_receive_workers(receive_workers); !status) return status;
  context.team()->on_news([this] {
    if (asleep_.load(std::memory_order_seq_cst) && asleep_.exchange(false)) notify_owner();
  });
  Status status = receive_threads_.attach(*context.team());
  if (!status.ok()) context.stop_receive_workers();
  return status;
}

void Progress::stop_workers(engine::CommunicatorContext& context) {
  if (context.team() == nullptr) return;
  receive_threads_.detach(*context.team());
  context.stop_receive_workers();
}

Status Progress::add(engine::CommunicatorContext& context, std::uint32_t receive_workers) {
  return with_engine([&]() -> Status {
    if (Status status = start_workers(context, receive_workers); !status) return status;
    const int fd = context.endpoint().wait_descriptor();
    epoll_event event{.events = EPOLLIN, .data = {.ptr = &context}};
    if (fd >= 0 && ::epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) != 0) {
      const Status status = system_failure(errno, "watching a communicator");
      stop_workers(context);
      return status;
    }
    contexts_.push_back(&context);
    report_priority();
    return {};
  });
}

void Progress::remove(engine::CommunicatorContext& context) {
  with_engine([&] {
    stop_workers(context);
    const int fd = context.endpoint().wait_descriptor();
    if (fd >= 0) (void)::epoll_ctl(epoll_, EPOLL_CTL_DEL, fd, nullptr);
    std::erase(contexts_, &context);
  });
}

void Progress::submit(engine::CommunicatorContext& context,
                      std::unique_ptr<engine::Operation> operation, bool will_wait) {
  if (operation->meets()) {
    const std::shared_ptr<engine::Completion> completion = operation->completion();
    completion->inline_poll_context = &context;
    with_inline_engine(context, [&] {
      context.try_start_inline(now(), operation);
      return true;
    });
    if (completion->done.load(std::memory_order_acquire)) return;
  }
  if (operation) context.submit(std::move(operation));
  if (will_wait) return;
  // What can leave at once leaves from here: the background thread has yet to wake. Not where a
  // callback might run then: its caller may hold what the callback wants.
  if (!callbacks_.load(std::memory_order_relaxed)) poll();
  wake();
  // Where the application computes now, the other ranks of its core begin before a slice of that:
  // Broadcast of 256 KiB, 4 ranks on 2 cores, 2.9 -> 2.1 ms. Where it is about to begin another
  // they would keep it from that: Allgather and Reduce-Scatter of 1 MiB, 8 ranks, 84 -> 106 ms.
  if (habit_.begun()) ::sched_yield();
}

void Progress::go_on(engine::CommunicatorContext& context,
                     std::unique_ptr<engine::Operation> operation) {
  if (operation->meets() && caller_owns_engine()) context.try_start_inline(now(), operation);
  if (operation) context.submit(std::move(operation));
}

/// Runs `work`, which touches a board and no more of the engine than its collective, where nobody
/// drives; false: somebody does. The background thread's watch goes on beside it.
template <typename Step>
bool Progress::with_inline_engine(engine::CommunicatorContext& context, Step&& step) {
  {
    const std::lock_guard lock(mutex_);
    if (driving_ || wanted_.load() > 0) return false;
    driving_ = true;
    ++drives_;
  }
  const InlineOwner owner(*this);
  run_contained(context, std::forward<Step>(step));
  return true;
}

Progress::InlineOwner::InlineOwner(Progress& progress) : progress_(progress) {
  driven_here = &progress;
}

Progress::InlineOwner::~InlineOwner() {
  driven_here = nullptr;
  {
    const std::lock_guard lock(progress_.mutex_);
    progress_.driving_ = false;
  }
  if (progress_.wanted_.load() > 0 || progress_.waiters_.load() > 0)
    progress_.changed_.notify_all();
}

/// Waits at a board for a moment, as long as that is all there is to do; returns whether the
/// collective is over.
bool Progress::spin_inline(const engine::Completion& completion, Instant deadline) {
  const auto done = [&] { return completion.done.load(std::memory_order_acquire); };
  const Instant end = std::min(deadline, now() + kInlineSpin);
  for (Instant at = now(); at < end; at = now()) {
    engine::CommunicatorContext* const context = completion.inline_poll_context;
    if (context == nullptr) break;
    bool goes_on = false;
    const auto look = [&] { return goes_on = context->poll_inline(at); };
    if (done() || !with_inline_engine(*context, look) || done() || !goes_on) break;
    ::sched_yield();
  }
  return done();
}

void Progress::wake() {
  computes_meanwhile_.store(true, std::memory_order_relaxed);
  bool driven = false;
  bool watching = false;
  {
    const std::lock_guard lock(mutex_);
    driven = driving_;
    watching = watching_;
    wake_background_ = true;
  }
  if (driven) {
    notify_owner();
  } else if (watching) {
    ring(background_event_);
  } else {
    parked_.notify_one();
  }
}

bool Progress::caller_owns_engine() const { return driven_here == this; }

/// Has the driver leave.
void Progress::await_turn(std::unique_lock<std::mutex>& lock) {
  wanted_.fetch_add(1);
  do {
    notify_owner();
  } while (!changed_.wait_for(lock, kBlockMax, [this] { return !driving_; }));
  wanted_.fetch_sub(1);
}

void Progress::acquire() {
  std::unique_lock lock(mutex_);
  if (driving_) await_turn(lock);
  take(lock);
}

/// For an application thread, where nobody drives. Lets go of the lock.
void Progress::take(std::unique_lock<std::mutex>& lock) {
  driving_ = true;
  driven_here = this;
  const bool watched = std::exchange(armed_, false);
  lock.unlock();
  if (!watched) return;
  // The background thread sleeps on: what comes from now on is ours.
  let_watch_hear(false);
  left_asleep_ = true;
  after_wait();
}

/// Where it hears already nothing is said: an aggregator, whose background thread alone drives,
/// spent an eighth of its time on saying it before each sleep.
void Progress::let_watch_hear(bool on) {
  if (std::exchange(watch_hears_, on) == on) return;
  epoll_event event{.events = on ? std::uint32_t{EPOLLIN} : 0, .data = {.fd = epoll_}};
  (void)::epoll_ctl(watch_, EPOLL_CTL_MOD, epoll_, &event);
}

Instant Progress::next_deadline() const {
  Instant deadline = kNever;
  for (const engine::CommunicatorContext* context : contexts_) {
    deadline = std::min(deadline, context->next_deadline());
  }
  return deadline;
}

void Progress::release() {
  driven_here = nullptr;
  // What was sent last may be lost and has to be sent again though the application computes.
  const Instant due = next_deadline();
  // The background thread was left asleep: it has to look after the engine soon, but not now.
  const bool left_asleep = std::exchange(left_asleep_, false);
  if (left_asleep) end_after(timer_, kParkMin);
  {
    const std::lock_guard lock(mutex_);
    driving_ = false;
    due_ = due;
    if (left_asleep) drives_left_asleep_ = drives_;
  }
  if (wanted_.load() > 0 || waiters_.load() > 0) changed_.notify_all();
}

bool Progress::wait(const engine::Completion& completion, Instant deadline) {
  habit_.waits();
  const auto done = [&] { return completion.done.load(std::memory_order_acquire); };
  if (completion.inline_poll_context.load() != nullptr && spin_inline(completion, deadline))
    return true;
  while (!done()) {
    {
      std::unique_lock lock(mutex_);
      if (driving_ && background_driving_) {
        await_turn(lock);
      } else if (driving_) {
        // Another application thread drives; it tells us about completions and when it leaves.
        waiters_.fetch_add(1);
        const auto left = std::max(deadline - now(), Nanoseconds(0));
        changed_.wait_for(lock, std::min(left, kBlockMax), [&] { return done() || !driving_; });
        waiters_.fetch_sub(1);
        if (!driving_ || done() || now() < deadline) continue;
        return done();
      } else if (wanted_.load() > 0) {
        // We just stood aside for a thread that wants to drive, and it has not taken over yet.
        waiters_.fetch_add(1);
        changed_.wait_for(lock, kHandoverWait, [&] { return driving_ || wanted_.load() == 0; });
        waiters_.fetch_sub(1);
        if (now() < deadline) continue;
        return done();
      }
      ++drives_;
      take(lock);
    }
    const EngineOwner owner(*this, std::adopt_lock);
    Instant idle_since = now();
    Instant turn_since = idle_since;
    bool slept = false;
    observe::BusyTrace busy(driver_log(), observe::TraceKind::drive, "driver: application thread");
    // Whoever wants the engine for a moment (an abort, a look at the counters) need not wait until
    // this collective is over: it may never be.
    while (!done() && wanted_.load(std::memory_order_relaxed) == 0) {
      busy.polling();
      const bool worked = poll_busy();
      busy.polled(worked);
      if (done()) break;
      const Instant at = now();
      if (at >= deadline) break;
      if (worked) {
        idle_since = at;
        if (waiters_.load(std::memory_order_relaxed) > 0) changed_.notify_all();
        if (at - turn_since < yield_after(slept)) continue;  // else the others' turn
      }
      if (at - idle_since < spin(slept)) {
        ::sched_yield();
        turn_since = now();
      } else {
        block_and_trace(deadline, busy);
        turn_since = idle_since = now();
        slept = true;
      }
    }
    if (!done() && now() >= deadline) return false;
  }
  return true;
}

void Progress::poll() {
  {
    std::unique_lock lock(mutex_);
    if (driving_) return;
    ++drives_;
    take(lock);
  }
  const EngineOwner owner(*this, std::adopt_lock);
  poll_all();
}

bool Progress::poll_all() {
  const Instant at = now();
  bool worked = false;
  for (engine::CommunicatorContext* context : contexts_)
    worked |= run_contained(*context, [&] { return context->poll(at); });
  return worked;
}

/// A round of those that have something to do; of the others, which only answer their peers, now
/// and then: whoever goes to sleep hears of them.
bool Progress::poll_busy() {
  constexpr std::uint32_t kRoundsOfIdle = 16;
  if (rounds_++ % kRoundsOfIdle == 0) return poll_all();
  const Instant at = now();
  bool worked = false;
  for (engine::CommunicatorContext* context : contexts_) {
    if (!context->busy()) continue;
    worked |= run_contained(*context, [&] { return context->poll(at); });
  }
  return worked;
}

bool Progress::has_news() const {
  return std::any_of(contexts_.begin(), contexts_.end(),
                     [](const engine::CommunicatorContext* one) { return one->has_news(); });
}

/// How long who waits works before the others of its core go on. Allreduce of 1 MiB by an
/// aggregator, 8 ranks on 2 cores, links of 1 Gbit/s: 0.85 to 0.99 of the time where those of a
/// core begin together.
Nanoseconds Progress::yield_after(bool slept) const {
  if (slept) return times_.yield_after;
  return begins_together() ? Nanoseconds(0) : times_.first_yield_after;
}

/// How long who waits polls in vain before it blocks.
Nanoseconds Progress::spin(bool slept) const {
  const bool in_slots =
      std::all_of(contexts_.begin(), contexts_.end(), [](const engine::CommunicatorContext* one) {
        return one->only_slot_exchange_active() || !one->busy();
      });
  if (in_slots) return kInlineSpin;
  return slept ? std::min(times_.spin, kSpinAgain) : times_.spin;
}

bool Progress::begins_together() const {
  return std::any_of(contexts_.begin(), contexts_.end(),
                     [](const engine::CommunicatorContext* one) { return one->begins_together(); });
}

/// Has the network tell of news; false where there are some already, or work. Shortens the deadline
/// to what the engine has due.
bool Progress::prepare_wait(Instant& deadline) {
  bool blocked = false;
  bool workers = false;
  for (engine::CommunicatorContext* context : contexts_) {
    deadline = std::min(deadline, context->next_deadline());
    if (context->has_submissions()) return false;
    blocked |= context->blocked();
    workers |= context->team() != nullptr;
  }
  if (deadline <= now()) return false;
  if (blocked) {
    for (auto* context : contexts_) context->endpoint().notify_when_sendable(true);
    sendable_watched_ = true;
  }
  // Said first: a worker that has news after we looked for them wakes us.
  if (workers) asleep_.store(true, std::memory_order_seq_cst);
  bool news = workers && has_news();
  for (auto* context : contexts_) news |= !context->endpoint().prepare_wait();
  if (news) after_wait();
  return !news;
}

/// Whoever prepared it: for the next driver.
void Progress::after_wait() {
  asleep_.store(false, std::memory_order_relaxed);
  if (!std::exchange(sendable_watched_, false)) return;
  for (auto* context : contexts_) context->endpoint().notify_when_sendable(false);
}

void Progress::block(Instant deadline) {
  rounds_ = 0;  // what wakes it may be for any of them
  if (!prepare_wait(deadline)) return;
  const timespec timeout = time_left(deadline);
  std::array<epoll_event, 16> events;
  const int count = device::wait_events(epoll_, events, timeout);
  after_wait();
  for (int i = 0; i < count; ++i) {
    if (events[i].data.ptr == nullptr) silence(owner_event_);
  }
}

void Progress::block_and_trace(Instant deadline, observe::BusyTrace& busy) {
  const Instant since = busy.falls_asleep();
  block(deadline);
  busy.wakes(since);
}

void Progress::notify_owner() { ring(owner_event_); }

bool Progress::background_may_drive(std::unique_lock<std::mutex>& lock) {
  // Growing pauses while application threads drive by themselves; at once when asked to, and when
  // the engine has something due that nobody drives.
  auto pause = kParkMin;
  std::uint64_t seen = drives_;
  // Whoever left it asleep has not driven since: that pause is over.
  const bool slept = std::exchange(drives_left_asleep_, kNobodyDrove) == seen;
  Instant until = now() + (slept ? Nanoseconds(0) : pause);
  while (!stop_) {
    briefly_ = !wake_background_;
    const bool due = due_ <= now() && wanted_.load() == 0;
    if (!driving_ && (wake_background_ || due)) return true;
    const Nanoseconds left = until - now();
    if (left.count() > 0) parked_.wait_for(lock, std::min(left, kParkPollInterval));
    if (now() < until) continue;
    briefly_ = driving_ || drives_ != seen;
    if (!briefly_) return !stop_;
    seen = drives_;
    pause = std::min(pause * 2, kParkMax);
    until = now() + pause;
  }
  return false;
}

void Progress::run_background() {
  std::unique_lock lock(mutex_);
  while (background_may_drive(lock)) {
    driving_ = background_driving_ = true;
    wake_background_ = false;
    driven_here = this;
    lock.unlock();
    const Instant due = drive_contained();
    lock.lock();
    if (!background_driving_) continue;  // an application thread took over from the watch
    driven_here = nullptr;
    due_ = due;
    driving_ = background_driving_ = false;
    changed_.notify_all();
  }
}

/// Has this thread, the background's, run before those that compute when it wakes. Not before
/// somebody computes: a blocking Allgather of 1 MiB, 4 ranks of one host on 2 cores, takes 1.1 of
/// its time beside threads that go first, for the kernel then spreads the others less evenly.
void Progress::go_first() {
  went_first_ = true;
  if (!priority_request_.nice || priority_request_.demanded) return;
  const Result<GrantedPriority> granted = apply_priority(priority_request_);
  if (!granted) return;  // not demanded: a refusal is none
  granted_ = *granted;
  may_go_first_ = granted_.realtime;
  report_priority();
}

void Progress::report_priority() {
  if (!granted_.realtime && granted_.nice >= 0) return;
  for (engine::CommunicatorContext* context : contexts_) {
    context->counters().background_priority =
        granted_.realtime ? kBeforeEveryNiceValue : static_cast<std::uint64_t>(-granted_.nice);
  }
}

/// What the kernel refuses is not asked for again.
void Progress::set_priority(bool realtime) {
  may_go_first_ = set_realtime(granted_.nice, realtime);
  if (may_go_first_) granted_.realtime = realtime;
}

/// Whoever goes before all does so for a share of the time only: beyond it those who compute would
/// wait for it, and among them whom it waits for.
void Progress::enforce_budget(bool worked) {
  if (!may_go_first_) return;
  const bool first = budget_.pass(now(), worked);
  if (first == granted_.realtime) return;
  set_priority(first);
  if (first || granted_.realtime) return;
  for (engine::CommunicatorContext* context : contexts_)
    ++context->counters().background_budget_exhausted;
}

void Progress::call_application(const std::function<void(const Status&)>& callback,
                                const Status& status) {
  const bool realtime = granted_.realtime && std::this_thread::get_id() == background_.get_id();
  if (realtime) set_priority(false);
  try {
    callback(status);
  } catch (const std::exception& error) {
    observe::complain(error.what());
  }
  if (realtime) set_priority(true);
}

/// The same. An exception fails all communicators; it can only come while this thread owns them.
Instant Progress::drive_contained() {
  try {
    return drive_in_background();
  } catch (const std::exception&) {
    const Status status = status_of_exception();
    for (engine::CommunicatorContext* context : contexts_) context->fail(status);
  }
  return now();
}

/// Drives until an application thread wants to, or has taken over, or, where only something was
/// due, until it is done; returns when the next is due.
Instant Progress::drive_in_background() {
  enforce_budget(false);
  observe::BusyTrace busy(driver_log(), observe::TraceKind::drive, "driver: background thread");
  while (wanted_.load(std::memory_order_relaxed) == 0) {
    if (!went_first_ && computes_meanwhile_.load(std::memory_order_relaxed)) go_first();
    busy.polling();
    const bool worked = poll_all();
    enforce_budget(true);
    busy.polled(worked);
    if (worked) {
      if (waiters_.load(std::memory_order_relaxed) > 0) changed_.notify_all();
      continue;
    }
    {
      const std::lock_guard guard(mutex_);
      if (stop_) return kNever;
      // An application that calls often would find the engine busy with looking after it.
      if (briefly_ && !wake_background_)
        return std::max(next_deadline(), now() + kParkPollInterval);
      briefly_ = wake_background_ = false;
    }
    const Instant since = busy.falls_asleep();
    if (!watch()) return kNever;
    enforce_budget(false);
    busy.wakes(since);
  }
  return kNever;
}

/// Waits for news without holding the engine. True: the background thread has it again.
bool Progress::watch() {
  Instant deadline = kNever;
  if (!prepare_wait(deadline)) return true;
  let_watch_hear(true);
  {
    const std::lock_guard guard(mutex_);
    if (wanted_.load() > 0 || wake_background_ || stop_) {
      after_wait();
      return true;
    }
    driving_ = background_driving_ = false;
    driven_here = nullptr;
    watching_ = armed_ = true;
  }
  if (waiters_.load() > 0) changed_.notify_all();
  const timespec timeout = time_left(deadline);
  std::array<epoll_event, 3> events;
  const int count = device::wait_events(watch_, events, timeout);
  for (int i = 0; i < count; ++i) {
    if (events[i].data.fd != epoll_) silence(events[i].data.fd);
  }
  {
    std::unique_lock lock(mutex_);
    watching_ = false;
    // Somebody is at a board: gone in a moment.
    waiters_.fetch_add(1);
    while (armed_ && driving_) changed_.wait_for(lock, kHandoverWait);
    waiters_.fetch_sub(1);
    if (!std::exchange(armed_, false)) return false;
    driving_ = background_driving_ = true;
    driven_here = this;
  }
  after_wait();
  silence(owner_event_);
  return true;
}

}  // namespace tutti::runtime
