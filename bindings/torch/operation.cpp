#include "operation.hpp"

#include <c10/util/ScopeExit.h>

#include <algorithm>
#include <utility>

#include "completion_pool.hpp"
#include "deadline.hpp"
#include "submissions.hpp"

namespace tutti::torch_backend {
namespace {

/// Time limit of the wait until libtutti stops using the buffers of an aborted operation.
constexpr std::chrono::seconds kAbortPatience{5};

void on_completion(tutti_status_t, const char*, void* context) {
  const std::unique_ptr<CompletionPool::Ended> ended(static_cast<CompletionPool::Ended*>(context));
  CompletionPool::instance().complete(*ended);
}

bool has_ended(tutti_request_t* request) {
  int done = 0;
  (void)tutti_request_test(request, &done);
  return done != 0;
}

}  // namespace

std::string Plan::what() const {
  return std::string(name) + " number " + std::to_string(sequence) + detail;
}

Operation::Operation(std::shared_ptr<Group> group, std::weak_ptr<Submissions> owner)
    : staging(group->counts), group_(std::move(group)), owner_(std::move(owner)) {}

Operation::~Operation() {
  // In a child of fork() the requests belong to the parent, so the child frees neither them nor
  // their tensors.
  if (group_->in_child()) return;
  const auto in_flight = [this] { return !done_ && !requests_.empty(); };
  if (in_flight()) {
    try {
      if (!is_done()) {
        std::rethrow_exception(backend_error("Tutti: " + plan.what() +
                                             " was freed before its end: wait for its Work"));
      }
    } catch (...) {
      fail(std::current_exception());
    }
  }
  for (tutti_request_t* const request : requests_) tutti_request_free(request);
  // libtutti may still use the tensors of a request in flight, so these are never freed.
  if (!in_flight()) staging.~Staging();
}

void Operation::start(tutti_comm_t* comm) {
  const std::lock_guard use(using_);
  if (is_marked_done()) return;
  const tutti_status_t status =
      Call::start(comm, plan.calls, {plan.will_wait, plan.priority}, requests_);
  callbacks_left_ = requests_.size();
  std::exception_ptr error;
  try {
    error = end_of(last_failure(status));
  } catch (...) {
    error = std::current_exception();  // some of the calls may be in flight
  }
  if (requests_.empty()) finish(error);
  {
    const std::lock_guard lock(mutex_);
    start_error_ = std::move(error);
    started_ = true;
  }
  changed_.notify_all();
}

std::exception_ptr Operation::after_start() {
  std::exception_ptr error;
  bool ended = false;
  bool arm_now = false;
  {
    const std::lock_guard lock(mutex_);
    error = start_error_;
    ended = done_;
    arm_now = wants_callback_ && waiters_ == 0;
  }
  if (error && !ended) {
    // This rank started only some of the calls, but the other ranks start all of them. Later
    // collectives would not match, so the group ends.
    if (const auto owner = owner_.lock()) owner->fail(error);
  }
  if (arm_now) arm();
  settle();
  return error;
}

void Operation::run_steps(tutti_comm_t* comm) {
  try {
    plan.steps(comm);
    end(nullptr);
  } catch (...) {
    end(std::current_exception());
  }
}

void Operation::run_alone() {
  for (const Call& call : plan.calls) call.run_alone();
  if (plan.steps) return run_steps(nullptr);
  end(nullptr);
}

void Operation::end(std::exception_ptr error) noexcept {
  {
    const std::lock_guard use(using_);
    if (end_requests(Clock::now() + kAbortPatience)) finish(std::move(error));
  }
  settle();
}

void Operation::fail(const std::exception_ptr& error) noexcept {
  if (const auto owner = owner_.lock()) owner->fail(error);
  end(error);
}

bool Operation::end_requests(Clock::time_point deadline) noexcept {
  return std::all_of(requests_.begin(), requests_.end(), [&](tutti_request_t* request) {
    (void)tutti_request_wait_for(request, nanoseconds_until(deadline));
    return has_ended(request);
  });
}

bool Operation::wait_started(Clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  return changed_.wait_until(lock, deadline, [&] { return started_ || done_; });
}

bool Operation::wait_requests(Clock::time_point deadline, Failure& failure) {
  for (tutti_request_t* const request : requests_) {
    Failure one = last_failure(tutti_request_wait_for(request, nanoseconds_until(deadline)));
    if (one.status == TUTTI_TIMEOUT) {
      if (!has_ended(request)) {
        failure = one;
        return false;
      }
      // Either this wait timed out and the call has ended since, or the call itself failed with a
      // timeout. In both cases a second wait returns the status of the call.
      one = last_failure(tutti_request_wait_for(request, 0));
    }
    if (one && !failure) failure = one;
  }
  return true;
}

void Operation::wait(std::chrono::milliseconds timeout) {
  if (timeout.count() <= 0) timeout = plan.timeout;
  const Clock::time_point deadline = Clock::now() + timeout;
  const std::exception_ptr late = wait_until(deadline, timeout);
  settle();
  if (late) std::rethrow_exception(late);
  if (const std::exception_ptr failed = error()) std::rethrow_exception(failed);
}

std::exception_ptr Operation::wait_until(Clock::time_point deadline,
                                         std::chrono::milliseconds timeout) {
  const auto count_waiter = [this](int change) {
    const std::lock_guard lock(mutex_);
    waiters_ += change;
  };
  count_waiter(1);
  const auto at_end = c10::make_scope_exit([&] { count_waiter(-1); });
  if (!wait_started(deadline)) return give_up(timeout, {});
  if (is_marked_done()) return nullptr;
  std::unique_lock use(using_, deadline);
  Failure failure;
  if (use.owns_lock() && (is_marked_done() || wait_requests(deadline, failure))) {
    if (!is_marked_done()) finish(end_of(failure));
    return nullptr;
  }
  if (use.owns_lock()) use.unlock();
  return give_up(timeout, failure);
}

std::exception_ptr Operation::give_up(std::chrono::milliseconds timeout, const Failure& late) {
  std::string text = c10::str("Timed out waiting ", timeout.count(), "ms for ", plan.what(),
                              " of group '", group_->name, "' at rank ", group_->rank);
  const auto owner = owner_.lock();
  if (!late.ranks.empty()) {
    text += ": no data from " + name_ranks(*group_, late.ranks);
  } else if (owner) {
    text += owner->absence();
  }
  text += ". The group is aborted: create a new one, or give the group a longer timeout";
  const std::exception_ptr error = backend_error("Tutti: " + text);
  if (owner) owner->abort(text);
  Failure cause;
  std::unique_lock use(using_, Clock::now() + kAbortPatience);
  if (!use.owns_lock()) return error;
  const bool ended = wait_requests(Clock::now() + kAbortPatience, cause);
  if (ended) finish(error);
  use.unlock();
  if (!ended) arm();
  settle();
  return error;
}

void Operation::arm() {
  const std::lock_guard use(using_);
  if (is_marked_done() || armed_ == requests_.size()) return;
  // The pool watches the operation before the first callback is set: if setting one fails, the
  // operation still ends when its timeout expires.
  watch();
  for (; armed_ < requests_.size(); ++armed_) {
    auto context = std::make_unique<CompletionPool::Ended>(1, shared_from_this());
    const Failure failure =
        last_failure(tutti_request_set_callback(requests_[armed_], on_completion, context.get()));
    if (failure) std::rethrow_exception(error_of(*group_, plan.what(), failure));
    (void)context.release();
  }
}

void Operation::finish_if_ended() {
  if (is_marked_done() || !std::all_of(requests_.begin(), requests_.end(), has_ended)) return;
  Failure failure;
  (void)wait_requests(Clock::now(), failure);
  finish(end_of(failure));
}

void Operation::complete() noexcept {
  if (--callbacks_left_ != 0) return;
  try {
    const std::lock_guard use(using_);
    Failure failure;
    // libtutti runs the callback of a request just before it marks the request as done. This
    // function therefore waits for the requests although all callbacks have run.
    if (!is_marked_done() && wait_requests(Clock::now() + kAbortPatience, failure))
      finish(end_of(failure));
  } catch (...) {
    return end(std::current_exception());
  }
  settle();
}

void Operation::expire() noexcept {
  try {
    if (!is_done()) (void)give_up(plan.timeout, {});
  } catch (...) {
    fail(std::current_exception());
  }
}

void Operation::abort() {
  if (const auto owner = owner_.lock()) owner->abort(plan.what() + " was aborted by its caller");
}

void Operation::abandon() {
  if (group_->in_child()) return;
  want_callback();
}

void Operation::want_callback() {
  bool queued = false;
  {
    const std::lock_guard lock(mutex_);
    const bool known = std::exchange(wants_callback_, true);
    queued = !started_;
    if (done_ || (queued ? known : waiters_ > 0)) return;
  }
  if (!queued) return arm();
  // The operation may never start, because the worker thread waits for other ranks.
  watch();
}

void Operation::watch() {
  CompletionPool::instance().watch(weak_from_this(), Clock::now() + plan.timeout);
}

c10::intrusive_ptr<c10::ivalue::Future> Operation::future() {
  c10::intrusive_ptr<c10::ivalue::Future> made;
  {
    const std::lock_guard lock(mutex_);
    if (future_) return future_;
    made = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
    future_ = made;
  }
  group_->counts.futures += 1;
  want_callback();
  settle();
  return made;
}

bool Operation::is_marked_done() {
  const std::lock_guard lock(mutex_);
  return done_;
}

bool Operation::is_done() {
  {
    const std::lock_guard lock(mutex_);
    if (done_ || !started_) return done_;
  }
  // If another thread holds using_, that thread itself checks whether the requests have ended.
  if (using_.try_lock()) {
    const std::lock_guard use(using_, std::adopt_lock);
    finish_if_ended();
  }
  settle();
  return is_marked_done();
}

std::exception_ptr Operation::error() {
  const std::lock_guard lock(mutex_);
  return error_;
}

std::exception_ptr Operation::end_of(const Failure& failure) {
  if (start_error_) return start_error_;
  return failure ? error_of(*group_, plan.what(), failure) : nullptr;
}

void Operation::finish(std::exception_ptr error) noexcept {
  if (is_marked_done()) return;
  if (!error && requests_.size() == 1 && plan.calls.front().is_receive()) {
    tutti_message_t message = TUTTI_MESSAGE_INIT;
    if (tutti_request_message(requests_.front(), &message) == TUTTI_OK)
      source_ = static_cast<int>(message.source);
  }
  try {
    if (!error) staging.write_back();
  } catch (...) {
    error = std::current_exception();
  }
  {
    const std::lock_guard lock(mutex_);
    done_ = true;
    error_ = std::move(error);
  }
  changed_.notify_all();
}

void Operation::settle() noexcept {
  Staging released(group_->counts);  // is destroyed after the lock is released
  c10::intrusive_ptr<c10::ivalue::Future> future;
  std::exception_ptr error;
  {
    const std::lock_guard lock(mutex_);
    if (!done_) return;
    std::swap(released, staging);
    if (settled_ || !future_) return;
    settled_ = true;
    future = future_;
    error = error_;
  }
  try {
    if (!error) future->markCompleted(c10::IValue(plan.results));
  } catch (...) {
    error = std::current_exception();
  }
  try {
    if (error) future->setErrorIfNeeded(error);
  } catch (...) {
    log_exception("a callback of a future failed");
  }
}

}  // namespace tutti::torch_backend
