#include "completion_pool.hpp"

#include <c10/util/Logging.h>
#include <c10/util/thread_name.h>
#include <unistd.h>

#include <system_error>
#include <thread>
#include <utility>

#include "operation.hpp"

namespace tutti::torch_backend {

CompletionPool& CompletionPool::instance() {
  // The pools are never freed: their threads are detached, and a child of fork() cannot free a
  // mutex that a thread of its parent held.
  static std::atomic<CompletionPool*> pool{nullptr};
  static std::atomic<pid_t> owner{0};
  static std::mutex making;
  if (owner.load(std::memory_order_acquire) == ::getpid()) return *pool;
  const std::lock_guard lock(making);
  if (owner.load(std::memory_order_acquire) != ::getpid()) {
    pool = new CompletionPool;
    owner.store(::getpid(), std::memory_order_release);
  }
  return *pool;
}

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
  std::unique_lock lock(mutex_);
  state_ = State::stopped;
  changed_.notify_all();
  changed_.wait_for(lock, patience, [this] { return busy_threads_ == 0; });
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
      if (deadlines_.empty()) {
        changed_.wait(lock);
      } else {
        changed_.wait_until(lock, deadlines_.begin()->first);
      }
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
    if (expired) expired->expire();
    if (ended) ended->complete();
    expired.reset();
    ended.reset();
    lock.lock();
    --busy_threads_;
    ++idle_threads_;
    if (state_ == State::stopped) changed_.notify_all();
  }
}

}  // namespace tutti::torch_backend
