// One operation of c10d at this rank, from its issue until its tensors are free again.
#pragma once

#include <ATen/core/ivalue.h>
#include <tutti/tutti.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "call.hpp"
#include "deadline.hpp"
#include "failure.hpp"
#include "staging.hpp"
#include "torch_version.hpp"

namespace tutti::torch_backend {

class Submissions;

/// The content of an operation. The backend fills it in and does not change it after the issue.
struct Plan {
  c10d::OpType type = c10d::OpType::UNKNOWN;
  const char* name = "";
  /// Number of the operation within the group; collectives and messages are numbered separately.
  std::uint64_t sequence = 0;
  std::string detail;  ///< further text for errors, such as the peer of a message
  std::chrono::milliseconds timeout{0};
  bool will_wait = false;  ///< true: the caller waits at once, so the progress thread need not wake
  std::int32_t priority = TUTTI_PRIORITY_NORMAL;
  std::vector<Call> calls;
  /// Carries out an operation whose calls depend on each other. Runs in a thread of the adapter.
  std::function<void(tutti_comm_t*)> steps;
  std::vector<at::Tensor> results;

  /// Name in errors: "allreduce number 7".
  std::string what() const;
  bool is_message() const { return !calls.empty() && calls.front().is_message(); }
  bool is_empty() const { return calls.empty() && !steps; }
};

class Operation : public std::enable_shared_from_this<Operation> {
 public:
  Operation(std::shared_ptr<Group> group, std::weak_ptr<Submissions> owner);
  ~Operation();

  Plan plan;
  /// The tensors. settle() releases them after the end of the operation. It is a union, because the
  /// destructor must not free tensors that libtutti still uses.
  union {
    Staging staging;
  };

  /// Starts all calls. The caller may hold locks; it must release them before it calls after_start.
  /// Throws only if no call has been started.
  void start(tutti_comm_t* comm);
  /// Completes the start after the caller has released its locks, because callbacks of the future
  /// may run in this function. Returns the failure of the start; null for none.
  std::exception_ptr after_start();
  /// Runs Plan::steps, which wait for other ranks.
  void run_steps(tutti_comm_t* comm);
  /// Carries out the operation of a group of one rank.
  void run_alone();
  /// Ends the operation, with success if `error` is null. Waits for its requests, and leaves the
  /// operation as it is if they do not end. Allocates no memory.
  void end(std::exception_ptr error) noexcept;

  /// Waits for the end of the operation, and throws its failure. If `timeout` is 0, the operation's
  /// own timeout applies.
  void wait(std::chrono::milliseconds timeout);
  bool is_done();
  std::exception_ptr error();
  /// Source of the message that a receive has got; -1 if there is no message yet.
  int source() const { return source_; }
  c10::intrusive_ptr<c10::ivalue::Future> future();
  /// Aborts the group.
  void abort();

  /// Must be called when the Work is freed: keeps the tensors alive until libtutti no longer uses
  /// them.
  void abandon();
  /// Ends the operation if the callbacks of all its requests have run. The completion pool calls
  /// this function once for each callback of libtutti.
  void complete() noexcept;
  /// Aborts the group and ends the operation with a timeout, unless the operation has ended before.
  /// The completion pool calls this function at the deadline.
  void expire() noexcept;

 private:
  /// Waits for the end of the operation; gives the operation up at the deadline, `timeout` after
  /// the begin of the wait, and then returns the error.
  std::exception_ptr wait_until(Clock::time_point deadline, std::chrono::milliseconds timeout);
  /// Waits until the calls have been started, or the operation has ended.
  bool wait_started(Clock::time_point deadline);
  /// Waits for all requests; false if the deadline has passed. The caller holds the mutex using_.
  bool wait_requests(Clock::time_point deadline, Failure& failure);
  /// As wait_requests(), but allocates no memory.
  bool end_requests(Clock::time_point deadline) noexcept;
  /// Ends the group and the operation with an exception that kept the operation from its end.
  /// Allocates no memory.
  void fail(const std::exception_ptr& error) noexcept;
  /// Makes sure that the operation ends even if no thread waits for it.
  void want_callback();
  /// Sets a callback on each request that has none, by which libtutti hands the operation to the
  /// completion pool when the request ends.
  void arm();
  /// Makes the completion pool end the operation when its timeout has expired.
  void watch();
  bool is_marked_done();
  void finish_if_ended();
  /// Releases the tensors and sets the value of the future once the operation is done. The caller
  /// holds no lock, because this function runs the callbacks of the future, and the release of a
  /// tensor may wait for the interpreter's lock.
  void settle() noexcept;
  /// Marks the operation as done, after all its requests have ended. The caller holds the mutex
  /// using_ and calls settle() after it has released this mutex.
  void finish(std::exception_ptr error) noexcept;
  /// The error of the start if the start failed, otherwise the error that `failure` describes; null
  /// if nothing failed.
  std::exception_ptr end_of(const Failure& failure);
  /// Aborts the group because this operation has exceeded its time limit, and ends the operation.
  std::exception_ptr give_up(std::chrono::milliseconds timeout, const Failure& late);

  std::shared_ptr<Group> group_;
  std::weak_ptr<Submissions> owner_;
  /// Held by the one thread that may use the requests.
  std::timed_mutex using_;
  std::vector<tutti_request_t*> requests_;
  std::size_t armed_ = 0;  ///< number of requests that have a callback; guarded by using_
  std::atomic<int> source_{-1};
  std::atomic<std::size_t> callbacks_left_{0};
  /// Guards the state of the operation, from `started_` to `future_`.
  std::mutex mutex_;
  std::condition_variable changed_;
  bool started_ = false;
  bool wants_callback_ = false;
  bool done_ = false;
  bool settled_ = false;  ///< whether settle() has begun to set the value of the future
  int waiters_ = 0;       ///< number of threads in wait(); each of them can end the operation
  std::exception_ptr start_error_;
  std::exception_ptr error_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

}  // namespace tutti::torch_backend
