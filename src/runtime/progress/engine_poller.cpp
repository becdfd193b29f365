#include "runtime/progress/engine_poller.hpp"

#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "base/error.hpp"
#include "device/posix/event_wait.hpp"
#include "runtime/progress/clock.hpp"
#include "runtime/progress/event_descriptor.hpp"

namespace tutti::runtime {

Status EnginePoller::open() {
  epoll_ = device::Descriptor(::epoll_create1(EPOLL_CLOEXEC));
  owner_event_ = make_event();
  if (!epoll_.valid() || !owner_event_.valid()) {
    return system_failure(errno, "creating the progress descriptors");
  }
  epoll_event event{.events = EPOLLIN, .data = {.ptr = nullptr}};
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, owner_event_.get(), &event) != 0) {
    return system_failure(errno, "watching the owner's wake-up descriptor");
  }
  return {};
}

Status EnginePoller::add(engine::CommunicatorContext& context) {
  // Memory is reserved first, so that nothing throws after the descriptor has been added to the
  // epoll set.
  contexts_.reserve(contexts_.size() + 1);
  const int fd = context.endpoint().wait_descriptor();
  epoll_event event{.events = EPOLLIN, .data = {.ptr = &context}};
  if (fd >= 0 && ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
    return system_failure(errno, "watching a communicator");
  }
  contexts_.push_back(&context);
  return {};
}

void EnginePoller::remove(engine::CommunicatorContext& context) {
  const int fd = context.endpoint().wait_descriptor();
  if (fd >= 0) (void)::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  std::erase(contexts_, &context);
}

// ---- polling ------------------------------------------------------------------------------------

bool EnginePoller::poll_all() {
  const Instant at = now();
  bool worked = false;
  for (engine::CommunicatorContext* context : contexts_)
    worked |= run_contained(*context, [&] { return context->poll(at); });
  return worked;
}

bool EnginePoller::poll_busy() {
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

void EnginePoller::fail_all(const Status& status) {
  for (engine::CommunicatorContext* context : contexts_) context->failures().fail(status);
}

Instant EnginePoller::next_deadline() const {
  Instant deadline = kNever;
  for (const engine::CommunicatorContext* context : contexts_) {
    deadline = std::min(deadline, context->next_deadline());
  }
  return deadline;
}

bool EnginePoller::begins_together() const {
  return std::any_of(
      contexts_.begin(), contexts_.end(),
      [](const engine::CommunicatorContext* one) { return one->operations().begins_together(); });
}

bool EnginePoller::only_slot_exchanges() const {
  return std::all_of(contexts_.begin(), contexts_.end(),
                     [](const engine::CommunicatorContext* one) {
                       return one->only_slot_exchange_active() || !one->busy();
                     });
}

bool EnginePoller::has_news() const {
  return std::any_of(
      contexts_.begin(), contexts_.end(),
      [](const engine::CommunicatorContext* one) { return one->receiver().has_news(); });
}

// ---- sleeping -----------------------------------------------------------------------------------

bool EnginePoller::prepare_wait(Instant& deadline) {
  bool blocked = false;
  bool workers = false;
  for (engine::CommunicatorContext* context : contexts_) {
    deadline = std::min(deadline, context->next_deadline());
    if (context->operations().has_submissions() || context->tagged().has_submissions())
      return false;
    blocked |= context->operations().blocked();
    workers |= context->receiver().has_workers();
  }
  if (deadline <= now()) return false;
  if (blocked) {
    for (auto* context : contexts_) context->endpoint().notify_when_sendable(true);
    sendable_watched_ = true;
  }
  // The flag is set before the workers' results are checked, so a worker with a later result wakes
  // this thread.
  if (workers) asleep_.store(true, std::memory_order_seq_cst);
  bool news = workers && has_news();
  for (auto* context : contexts_) news |= !context->endpoint().prepare_wait();
  if (news) after_wait();
  return !news;
}

void EnginePoller::after_wait() {
  asleep_.store(false, std::memory_order_relaxed);
  if (!std::exchange(sendable_watched_, false)) return;
  for (auto* context : contexts_) context->endpoint().notify_when_sendable(false);
}

void EnginePoller::block(Instant deadline, observe::BusyTrace& busy) {
  const Instant since = busy.falls_asleep();
  rounds_ = 0;  // the next poll includes all communicators, because any may have woken the thread
  if (prepare_wait(deadline)) {
    const timespec timeout = time_left(deadline);
    std::array<epoll_event, 16> events;
    const int count = device::wait_events(epoll_.get(), events, timeout);
    after_wait();
    for (int i = 0; i < count; ++i) {
      if (events[i].data.ptr == nullptr) clear_notification();
    }
  }
  busy.wakes(since);
}

void EnginePoller::notify_owner() { signal_event(owner_event_); }

void EnginePoller::notify_sleeping_owner() {
  if (asleep_.load(std::memory_order_seq_cst) && asleep_.exchange(false)) notify_owner();
}

void EnginePoller::clear_notification() { clear_event(owner_event_.get()); }

}  // namespace tutti::runtime
