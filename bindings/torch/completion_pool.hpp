// Threads of the adapter that end operations for which no thread waits.
#pragma once

#include <chrono>
#include <condition_variable>
#include <list>
#include <map>
#include <memory>
#include <mutex>

#include "deadline.hpp"
#include "of_process.hpp"

namespace tutti::torch_backend {

class Operation;

/// Futures run callbacks of the application, which may wait for further operations. The progress
/// thread of libtutti therefore only queues an operation in the pool, and the pool adds a thread if
/// all its threads are busy.
class CompletionPool {
 public:
  /// The pool of this process; a child of fork() has one of its own.
  static CompletionPool& instance();

  /// Operations whose requests have ended. It is a list, so that complete() allocates no memory: an
  /// exception must not reach the progress thread of libtutti.
  using Ended = std::list<std::shared_ptr<Operation>>;

  /// Takes over the elements of `operations`.
  void complete(Ended& operations) noexcept;
  /// Ends the operation with a timeout unless it is done by the deadline.
  void watch(std::weak_ptr<Operation> operation, Clock::time_point deadline);
  /// Marks a thread outside the pool for which stop() must wait. While the Guest exists, the thread
  /// counts as a pool thread that runs callbacks.
  class Guest {
   public:
    Guest();
    Guest(const Guest&) = delete;
    Guest& operator=(const Guest&) = delete;
    ~Guest();
  };

  /// Runs the callbacks of the operations that have ended, and starts no further ones; waits at
  /// most `patience` until they have returned. The adapter calls this function before the
  /// interpreter ends. A callback that asked for the interpreter's lock afterwards would end the
  /// process with std::terminate.
  void stop(std::chrono::milliseconds patience);

 private:
  enum class State { running, stopped };

  friend CompletionPool& of_process<CompletionPool>();

  CompletionPool() = default;
  void work();
  void wake_or_add_thread() noexcept;
  std::shared_ptr<Operation> take_expired();

  std::mutex mutex_;
  std::condition_variable changed_;
  Ended ended_;
  std::multimap<Clock::time_point, std::weak_ptr<Operation>> deadlines_;
  State state_ = State::running;
  int idle_threads_ = 0;
  int busy_threads_ = 0;
};

}  // namespace tutti::torch_backend
