#include "runtime/progress/receive_threads.hpp"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <iterator>

#include "base/error.hpp"
#include "device/posix/blocked_signals.hpp"
#include "device/posix/event_wait.hpp"
#include "runtime/progress/clock.hpp"
#include "runtime/progress/exception_status.hpp"

namespace tutti::runtime {

namespace {

// Longest sleep of a receive thread. A lost wake-up delays the thread by at most this time.
constexpr Nanoseconds kSleepMax{1'000'000'000};

}  // namespace

Result<std::unique_ptr<ReceiveThread>> ReceiveThread::create(observe::TraceLog* log,
                                                             const PriorityRequest& precedence) {
  std::unique_ptr<ReceiveThread> thread(new ReceiveThread(log, precedence));
  if (Status status = thread->open(); !status) return status;
  return thread;
}

Status ReceiveThread::open() {
  epoll_ = ::epoll_create1(EPOLL_CLOEXEC);
  owner_event_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (epoll_ < 0 || owner_event_ < 0) return system_failure(errno, "creating a receive worker");
  epoll_event event{.events = EPOLLIN, .data = {.fd = owner_event_}};
  if (::epoll_ctl(epoll_, EPOLL_CTL_ADD, owner_event_, &event) != 0) {
    return system_failure(errno, "watching a receive worker's wake-up descriptor");
  }
  const device::BlockedSignals blocked;
  thread_ = std::thread([this] { run(); });
  return {};
}

ReceiveThread::~ReceiveThread() {
  if (thread_.joinable()) {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
      changed_.store(true, std::memory_order_seq_cst);
    }
    notify_owner();
    thread_.join();
  }
  if (owner_event_ >= 0) ::close(owner_event_);
  if (epoll_ >= 0) ::close(epoll_);
}

Status ReceiveThread::attach(engine::ReceiveWorker& worker) {
  std::unique_lock lock(mutex_);
  wanted_ = workers_;
  // push_back() may throw, so it comes before the calls that add descriptors to the epoll set.
  wanted_.push_back(&worker);
  int error = 0;
  worker.for_each_descriptor([&](int one) {
    epoll_event event{.events = EPOLLIN, .data = {.fd = one}};
    if (::epoll_ctl(epoll_, EPOLL_CTL_ADD, one, &event) != 0) error = errno;
    return error == 0;
  });
  if (error != 0) {
    worker.for_each_descriptor([this](int one) {
      (void)::epoll_ctl(epoll_, EPOLL_CTL_DEL, one, nullptr);
      return true;
    });
    return system_failure(error, "watching a multicast socket");
  }
  worker.on_rouse([this] { rouse(); });
  apply(lock);
  return {};
}

void ReceiveThread::detach(engine::ReceiveWorker& worker) {
  {
    std::unique_lock lock(mutex_);
    if (std::find(workers_.begin(), workers_.end(), &worker) == workers_.end()) return;
    // attach() has reserved enough room in `wanted_`, so that this copy does not throw.
    wanted_.clear();
    std::copy_if(workers_.begin(), workers_.end(), std::back_inserter(wanted_),
                 [&worker](const engine::ReceiveWorker* one) { return one != &worker; });
    apply(lock);
  }
  worker.for_each_descriptor([this](int one) {
    (void)::epoll_ctl(epoll_, EPOLL_CTL_DEL, one, nullptr);
    return true;
  });
}

void ReceiveThread::apply(std::unique_lock<std::mutex>& lock) {
  current_ = false;
  changed_.store(true, std::memory_order_seq_cst);
  notify_owner();
  while (!applied_.wait_for(lock, kSleepMax, [this] { return current_; })) notify_owner();
}

/// Makes `wanted_` the set of workers to poll; returns false if the thread must end.
bool ReceiveThread::take_changes() {
  const std::lock_guard lock(mutex_);
  changed_.store(false, std::memory_order_seq_cst);
  workers_.swap(wanted_);  // swap() does not throw, unlike an assignment
  current_ = true;
  applied_.notify_all();
  return !stop_;
}

/// Polls a worker. If the poll throws, the worker's communicator fails, but the thread continues.
bool ReceiveThread::poll_contained(engine::ReceiveWorker& worker, Instant at) {
  try {
    return worker.poll(at);
  } catch (...) {
    worker.fail(status_of_exception());
  }
  return false;
}

void ReceiveThread::run() {
  // The error of a refused priority is ignored here, because the progress thread reports it.
  (void)guarded([this] { return apply_priority(priority_request_); });
  observe::BusyTrace busy(log_, observe::TraceKind::receive_worker,
                          log_ == nullptr ? "" : log_->name().c_str());
  while (true) {
    if (changed_.load(std::memory_order_acquire) && !take_changes()) return;
    bool worked = false;
    busy.polling();
    const Instant at = now();
    for (engine::ReceiveWorker* worker : workers_) worked |= poll_contained(*worker, at);
    busy.polled(worked);
    if (!worked) wait();
  }
}

void ReceiveThread::wait() {
  // `asleep_` is set before `changed_` is read, so that a thread that changes the workers after
  // this read wakes this thread.
  asleep_.store(true, std::memory_order_seq_cst);
  bool due = changed_.load(std::memory_order_seq_cst);
  Instant deadline = kNever;
  for (const engine::ReceiveWorker* worker : workers_) {
    due |= worker->due();
    deadline = std::min(deadline, worker->next_deadline());
  }
  const Nanoseconds left = std::min(std::max(deadline - now(), Nanoseconds(0)), kSleepMax);
  const timespec timeout{left.count() / 1'000'000'000, left.count() % 1'000'000'000};
  std::array<epoll_event, 16> events;
  int count = 0;
  if (!due) count = device::wait_events(epoll_, events, timeout);
  asleep_.store(false, std::memory_order_relaxed);
  for (int i = 0; i < count; ++i) {
    if (events[i].data.fd != owner_event_) continue;
    std::uint64_t kicks = 0;
    (void)!::read(owner_event_, &kicks, sizeof kicks);
  }
}

void ReceiveThread::rouse() {
  if (asleep_.load(std::memory_order_seq_cst) && asleep_.exchange(false)) notify_owner();
}

void ReceiveThread::notify_owner() {
  const std::uint64_t one = 1;
  (void)!::write(owner_event_, &one, sizeof one);
}

Status ReceiveThreads::attach(engine::ReceiveTeam& team) {
  while (threads_.size() < team.size()) {
    auto thread = ReceiveThread::create(trace_ == nullptr ? nullptr : &trace_->add_worker(),
                                        priority_request_);
    if (!thread) return thread.status();
    threads_.push_back(std::move(*thread));
  }
  for (std::uint32_t w = 0; w < team.size(); ++w) {
    const Status status = threads_[(next_ + w) % threads_.size()]->attach(team.worker(w));
    if (status.ok()) continue;
    detach(team);
    return status;
  }
  next_ = (next_ + team.size()) % threads_.size();
  return {};
}

void ReceiveThreads::detach(engine::ReceiveTeam& team) {
  for (std::uint32_t w = 0; w < team.size(); ++w) {
    for (const auto& thread : threads_) thread->detach(team.worker(w));
  }
}

}  // namespace tutti::runtime
