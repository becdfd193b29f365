#include "runtime/progress/engine_poller.hpp"

#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/error.hpp"
#include "device/posix/event_wait.hpp"
#include "runtime/progress/clock.hpp"
#include "runtime/progress/event_descriptor.hpp"

namespace tutti::runtime {

namespace {

/// Interval at which an owner that does not sleep asks the kernel for events of dormant
/// communicators. A shorter interval would cost more system calls, each of which takes longer than
/// a round of polling; a longer one would delay the answers of dormant communicators to their
/// peers.
constexpr Nanoseconds kEventInterval = std::chrono::microseconds(200);

bool has_submissions(engine::CommunicatorContext& context) {
  return context.operations().has_submissions() || context.tagged().has_submissions();
}

}  // namespace

Status EnginePoller::open() {
  epoll_ = device::Descriptor(::epoll_create1(EPOLL_CLOEXEC));
  owner_event_ = make_event();
  if (!epoll_.valid() || !owner_event_.valid()) {
    return system_failure(errno, "creating the engine's epoll set and wake-up descriptor");
  }
  epoll_event event{.events = EPOLLIN, .data = {.ptr = nullptr}};
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, owner_event_.get(), &event) != 0) {
    return system_failure(errno, "watching the owner's wake-up descriptor");
  }
  return {};
}

Status EnginePoller::add(engine::CommunicatorContext& context) {
  // Memory is reserved first, so that nothing throws after the descriptor has been added to the
  // epoll set, nor when a communicator is awakened.
  contexts_.reserve(contexts_.size() + 1);
  awake_.reserve(contexts_.size() + 1);
  dormant_.reserve(contexts_.size() + 1);
  const int fd = context.endpoint().wait_descriptor();
  epoll_event event{.events = EPOLLIN, .data = {.ptr = &context}};
  if (fd >= 0 && ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
    return system_failure(errno, "watching a communicator");
  }
  context.operations().dormant() = false;
  contexts_.push_back(&context);
  awake_.push_back(&context);
  return {};
}

void EnginePoller::remove(engine::CommunicatorContext& context) {
  // `submitted_to_` may point to this communicator, so awaken_changed() clears the pointer. No
  // later call sets the pointer again, because this communicator gets no more calls.
  awaken(context);
  awaken_changed();
  const int fd = context.endpoint().wait_descriptor();
  if (fd >= 0) (void)::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  std::erase(contexts_, &context);
  std::erase(awake_, &context);
}

// ---- dormant communicators ----------------------------------------------------------------------

void EnginePoller::awaken(engine::CommunicatorContext& context) {
  if (!context.operations().dormant()) return;
  awaken_if([&](const Dormant& one) { return one.context == &context; });
}

template <typename Condition>
void EnginePoller::awaken_if(const Condition& condition) {
  std::erase_if(dormant_, [&](const Dormant& one) {
    if (!condition(one)) return false;
    one.context->operations().dormant() = false;
    awake_.push_back(one.context);
    return true;
  });
}

void EnginePoller::awaken_changed() {
  if (submitted_to_.load(std::memory_order_relaxed) != nullptr)
    awaken(*submitted_to_.exchange(nullptr));
  if (!changed_.load(std::memory_order_relaxed) || !changed_.exchange(false)) return;
  awaken_if(
      [](const Dormant& one) { return one.context->busy() || one.context->failures().noted(); });
}

void EnginePoller::awaken_due(Instant now) {
  const bool all = now >= all_due_;
  if (all) all_due_ = now + longest_dormancy_;
  if (!all && now < dormant_deadline_) return;
  dormant_deadline_ = kNever;
  awaken_if([&](const Dormant& one) {
    if (!all && one.due > now) dormant_deadline_ = std::min(dormant_deadline_, one.due);
    return all || one.due <= now;
  });
}

void EnginePoller::awaken_reported(const Events& events, int count) {
  for (int i = 0; i < count; ++i) {
    if (events[i].data.ptr != nullptr)
      awaken(*static_cast<engine::CommunicatorContext*>(events[i].data.ptr));
  }
}

/// Awakens each communicator that has something to do. The event of notify_owner() is not cleared,
/// because a thread that wants the engine may have set it.
void EnginePoller::awaken_all_due(Instant now) {
  awaken_changed();
  // Recomputes `dormant_deadline_` even if no communicator is dormant: the old value may belong to
  // a communicator that is awake again, and an expired value would keep the owner from sleeping.
  awaken_due(now);
  if (awake_.size() == contexts_.size() || now < events_due_) return;
  events_due_ = now + kEventInterval;
  Events events;
  awaken_reported(events, device::wait_events(epoll_.get(), events, timespec{}));
}

/// Makes the idle communicators dormant. Returns false if a call was submitted meanwhile.
bool EnginePoller::retire_idle() {
  bool called = false;
  std::erase_if(awake_, [&](engine::CommunicatorContext* one) {
    called |= has_submissions(*one);
    if (one->busy() || one->failures().noted() || one->receiver().has_workers()) return false;
    dormant_.push_back({one, one->next_deadline()});
    dormant_deadline_ = std::min(dormant_deadline_, dormant_.back().due);
    one->operations().dormant() = true;
    // A call may have been submitted between the test of busy() and this line. At that time the
    // communicator was not yet dormant, so on_submission() had no effect and is called again.
    if (one->busy()) on_submission(*one);
    return true;
  });
  const std::size_t awake = awake_.size();
  awaken_changed();
  return !called && awake_.size() == awake;
}

// ---- polling ------------------------------------------------------------------------------------

template <typename Condition>
bool EnginePoller::poll_if(Instant at, const Condition& condition) {
  bool worked = false;
  // A completion callback may awaken another communicator, which the loop then polls, too.
  for (std::size_t i = 0; i < awake_.size(); ++i) {
    engine::CommunicatorContext& one = *awake_[i];
    if (condition(one)) worked |= run_contained(one, [&] { return one.poll(at); });
  }
  return worked;
}

bool EnginePoller::poll_all() {
  const Instant at = now();
  awaken_all_due(at);
  return poll_if(at, [](const auto&) { return true; });
}

bool EnginePoller::poll_busy() {
  constexpr std::uint32_t kRoundsOfIdle = 16;
  const std::uint32_t round = rounds_++;
  // The first round after a sleep need not call poll_all: block() has already awakened the
  // communicators for which events arrived.
  if (round != 0 && round % kRoundsOfIdle == 0) return poll_all();
  awaken_changed();
  return poll_if(now(), [&](const auto& one) { return round == 0 || one.busy(); });
}

void EnginePoller::fail_all(const Status& status) {
  for (engine::CommunicatorContext* context : contexts_) context->failures().fail(status);
  on_change();
}

bool EnginePoller::busy() {
  awaken_changed();
  return std::any_of(awake_.begin(), awake_.end(),
                     [](const engine::CommunicatorContext* one) { return one->busy(); });
}

Instant EnginePoller::next_deadline() {
  awaken_changed();
  Instant deadline = dormant_deadline_;
  for (const engine::CommunicatorContext* context : awake_) {
    deadline = std::min(deadline, context->next_deadline());
    // The failure of one communicator may cause that of another, which no event announces.
    const engine::FailureCoordinator& failures = context->failures();
    if (failures.noted() && !failures.settled()) deadline = Instant();
  }
  return deadline;
}

bool EnginePoller::begins_together() const {
  return std::any_of(awake_.begin(), awake_.end(), [](const engine::CommunicatorContext* one) {
    return one->operations().begins_together();
  });
}

bool EnginePoller::only_slot_exchanges() const {
  return std::all_of(awake_.begin(), awake_.end(), [](const engine::CommunicatorContext* one) {
    return one->only_slot_exchange_active() || !one->busy();
  });
}

bool EnginePoller::has_news() const {
  return std::any_of(awake_.begin(), awake_.end(), [](const engine::CommunicatorContext* one) {
    return one->receiver().has_news();
  });
}

// ---- sleeping -----------------------------------------------------------------------------------

bool EnginePoller::prepare_wait(Instant& deadline) {
  bool blocked = false;
  bool workers = false;
  deadline = std::min(deadline, next_deadline());
  for (engine::CommunicatorContext* context : awake_) {
    if (has_submissions(*context)) return false;
    blocked |= context->operations().blocked();
    workers |= context->receiver().has_workers();
  }
  if (deadline <= now()) return false;
  if (blocked) {
    for (auto* context : awake_) {
      if (context->operations().blocked()) context->endpoint().notify_when_sendable(true);
    }
    sendable_watched_ = true;
  }
  // `asleep_` is set before the check for results of receive workers, so that a worker that gets a
  // result after the check wakes this thread.
  if (workers) asleep_.store(true, std::memory_order_seq_cst);
  bool news = workers && has_news();
  for (auto* context : awake_) news |= !context->endpoint().prepare_wait();
  news = news || !retire_idle();
  if (news) after_wait();
  return !news;
}

void EnginePoller::after_wait() {
  asleep_.store(false, std::memory_order_relaxed);
  if (!std::exchange(sendable_watched_, false)) return;
  for (auto* context : awake_) context->endpoint().notify_when_sendable(false);
}

void EnginePoller::block(Instant deadline, observe::BusyTrace& busy) {
  const Instant since = busy.falls_asleep();
  rounds_ = 0;  // round 0 polls all awake communicators, even idle ones
  if (prepare_wait(deadline)) {
    const timespec timeout = time_left(deadline);
    Events events;
    const int count = device::wait_events(epoll_.get(), events, timeout);
    after_wait();
    for (int i = 0; i < count; ++i) {
      if (events[i].data.ptr == nullptr) clear_notification();
    }
    awaken_reported(events, count);
  }
  awaken_due(now());
  busy.wakes(since);
}

void EnginePoller::notify_owner() { signal_event(owner_event_); }

void EnginePoller::notify_sleeping_owner() {
  if (asleep_.load(std::memory_order_seq_cst) && asleep_.exchange(false)) notify_owner();
}

void EnginePoller::clear_notification() { clear_event(owner_event_.get()); }

}  // namespace tutti::runtime
