#include "completion_pool.hpp"

#include <c10/util/Logging.h>
#include <c10/util/thread_name.h>

#include <algorithm>
#include <system_error>
#include <thread>
#include <utility>

#include "operation.hpp"

namespace tutti::torch_backend {
namespace {

/// Longest sleep of a thread of the pool. In glibc 2.25 to 2.40 pthread_cond_signal can lose a
/// wake-up, so no wait may depend on a wake-up.
constexpr std::chrono::seconds kMaxWait{1};
constexpr std::chrono::milliseconds kStopSlice{5};

/// Ends an operation that has expired or whose requests have ended. An exception must not leave a
/// thread of the pool, because it would end the process.
void end_logged(Operation& operation, void (Operation::*end)()) {
  try {
    (operation.*end)();
  } catch (const std::exception& error) {
    LOG(ERROR) << "Tutti: the end of " << operation.plan.what() << " failed: " << error.what();
  }
}

}  // namespace

CompletionPool& CompletionPool::instance() { return of_process<CompletionPool>(); }

void CompletionPool::wake_or_add_thread() {
  if (state_ == State::stopped) return;
  if (idle_threads_ > 0) {
    changed_.notify_one();
    return;
  }
  std::thread([this] { work(); }).detach();  // work() waits until the caller releases mutex_
  ++idle_threads_;
}

/// As wake_or_add_thread(), but only logs a warning if no thread can be created. The existing
/// threads of the pool then look at the queue as soon as they are idle.
void CompletionPool::try_to_add_thread() {
  try {
    wake_or_add_thread();
  } catch (const std::system_error& error) {
    LOG(WARNING) << "Tutti: a thread for callbacks could not be created: " << error.what();
  }
}

void CompletionPool::complete(std::shared_ptr<Operation> operation) {
  const std::lock_guard lock(mutex_);
  ended_.push_back(std::move(operation));
  try_to_add_thread();
}

void CompletionPool::watch(std::weak_ptr<Operation> operation, Clock::time_point deadline) {
  const std::lock_guard lock(mutex_);
  while (!deadlines_.empty() && deadlines_.begin()->second.expired())
    deadlines_.erase(deadlines_.begin());
  const bool first = deadlines_.empty() || deadline < deadlines_.begin()->first;
  deadlines_.emplace(deadline, std::move(operation));
  if (first) wake_or_add_thread();
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
    std::shared_ptr<Operation> ended;
    if (!expired) {
      ended = std::move(ended_.front());
      ended_.pop_front();
    }
    --idle_threads_;
    ++busy_threads_;
    // If no thread is idle, another thread must watch the deadlines and the queue while this thread
    // runs callbacks.
    if (idle_threads_ == 0 && (!ended_.empty() || !deadlines_.empty())) try_to_add_thread();
    lock.unlock();
    if (expired) end_logged(*expired, &Operation::expire);
    if (ended) end_logged(*ended, &Operation::complete);
    expired.reset();
    ended.reset();
    lock.lock();
    --busy_threads_;
    ++idle_threads_;
    if (state_ == State::stopped) changed_.notify_all();
  }
}

}  // namespace tutti::torch_backend
