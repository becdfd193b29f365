#include "completion_pool.hpp"

#include <c10/util/thread_name.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "operation.hpp"

namespace tutti::torch_backend {
namespace {

/// Longest sleep of a thread of the pool. In glibc 2.25 to 2.40 pthread_cond_signal can lose a
/// wake-up, so no wait may depend on a wake-up.
constexpr std::chrono::seconds kMaxWait{1};
constexpr std::chrono::milliseconds kStopSlice{5};

}  // namespace

CompletionPool& CompletionPool::instance() { return of_process<CompletionPool>(); }

/// Only logs if no thread can be created. A busy thread of the pool then looks at the queue as soon
/// as it is idle, and the next call of this function tries again.
void CompletionPool::wake_or_add_thread() noexcept {
  if (state_ == State::stopped) return;
  if (idle_threads_ > 0) {
    changed_.notify_one();
    return;
  }
  try {
    std::thread([this] { work(); }).detach();  // work() waits until the caller releases mutex_
    ++idle_threads_;
  } catch (...) {
    log_exception("a thread for callbacks could not be created");
  }
}

void CompletionPool::complete(Ended& operations) noexcept {
  const std::lock_guard lock(mutex_);
  ended_.splice(ended_.end(), operations);
  wake_or_add_thread();
}

void CompletionPool::watch(std::weak_ptr<Operation> operation, Clock::time_point deadline) {
  const std::lock_guard lock(mutex_);
  while (!deadlines_.empty() && deadlines_.begin()->second.expired())
    deadlines_.erase(deadlines_.begin());
  const bool first = deadlines_.empty() || deadline < deadlines_.begin()->first;
  deadlines_.emplace(deadline, std::move(operation));
  if (first || idle_threads_ == 0) wake_or_add_thread();
}

CompletionPool::Guest::Guest() {
  CompletionPool& pool = instance();
  const std::lock_guard lock(pool.mutex_);
  ++pool.busy_threads_;
}

CompletionPool::Guest::~Guest() {
  CompletionPool& pool = instance();
  const std::lock_guard lock(pool.mutex_);
  --pool.busy_threads_;
  if (pool.state_ == State::stopped) pool.changed_.notify_all();
}

void CompletionPool::stop(std::chrono::milliseconds patience) {
  const Clock::time_point end = Clock::now() + patience;
  std::unique_lock lock(mutex_);
  // No thread says that it has taken the last operation, so this thread looks again and again.
  while (!ended_.empty() && Clock::now() < end) changed_.wait_for(lock, kStopSlice);
  state_ = State::stopped;
  changed_.notify_all();
  changed_.wait_until(lock, end, [this] { return busy_threads_ == 0; });
}

std::shared_ptr<Operation> CompletionPool::take_expired() {
  while (!deadlines_.empty()) {
    const auto first = deadlines_.begin();
    // Before the deadline the pool must not take a strong reference to the operation. The release
    // of the last reference here could wait for the interpreter's lock while the owner of that lock
    // waits for mutex_: a deadlock.
    if (!first->second.expired() && first->first > Clock::now()) return nullptr;
    std::shared_ptr<Operation> operation = first->second.lock();
    deadlines_.erase(first);
    if (operation) return operation;
  }
  return nullptr;
}

void CompletionPool::work() {
  c10::setThreadName("tutti_torch");
  std::unique_lock lock(mutex_);
  while (state_ == State::running) {
    std::shared_ptr<Operation> expired;
    while (ended_.empty() && !(expired = take_expired())) {
      // A thread ends here if more than two are idle. Two are enough: one watches the deadlines
      // while the other runs callbacks.
      if (idle_threads_ > 2) {
        --idle_threads_;
        return;
      }
      // A copy of the deadline, because another thread may erase the entry during the wait.
      Clock::time_point until = Clock::now() + kMaxWait;
      if (!deadlines_.empty()) until = std::min(until, deadlines_.begin()->first);
      changed_.wait_until(lock, until);
      if (state_ == State::stopped) return;
    }
    Ended ended;
    if (!expired) ended.splice(ended.end(), ended_, ended_.begin());
    --idle_threads_;
    ++busy_threads_;
    // If no thread is idle, another thread must watch the deadlines and the queue while this thread
    // runs callbacks.
    if (idle_threads_ == 0 && (!ended_.empty() || !deadlines_.empty())) wake_or_add_thread();
    lock.unlock();
    if (expired) expired->expire();
    if (!ended.empty()) ended.front()->complete();
    expired.reset();
    ended.clear();
    lock.lock();
    --busy_threads_;
    ++idle_threads_;
    if (state_ == State::stopped) changed_.notify_all();
  }
}

}  // namespace tutti::torch_backend
