#include "submissions.hpp"

#include <c10/util/thread_name.h>

#include <thread>
#include <utility>

#include "completion_pool.hpp"

namespace tutti::torch_backend {

Submissions::Submissions(std::shared_ptr<Group> group, c10::intrusive_ptr<c10d::Store> store)
    : group_(std::move(group)), store_(std::move(store)) {}

void Submissions::check_usable() {
  if (group_->in_child()) {
    raise("group '", group_->name, "' belongs to process ", group_->process,
          " and cannot be used in its child ", ::getpid(),
          " after fork(): start processes by spawn, or call init_process_group in the child");
  }
  const std::lock_guard lock(mutex_);
  if (end_) std::rethrow_exception(end_);
}

void Submissions::issue(const std::shared_ptr<Operation>& operation) {
  check_usable();
  group_->counts.operations += 1;
  if (operation->plan.will_wait) group_->counts.waited += 1;
  if (operation->plan.priority == TUTTI_PRIORITY_HIGH) group_->counts.high += 1;
  if (operation->plan.is_empty()) return operation->end(nullptr);
  const bool message = operation->plan.is_message();
  if (group_->size == 1 && !message) {
    group_->counts.alone += 1;
    return operation->run_alone();
  }
  {
    const std::lock_guard lock(mutex_);
    if (end_) std::rethrow_exception(end_);
    const bool overtakes = message && communicator_ && queued_messages_ == 0;
    if (!overtakes && (!communicator_ || working_ || operation->plan.steps)) {
      add_worker();
      queue_.push_back(operation);
      group_->counts.queued += 1;
      queued_messages_ += message ? 1 : 0;
      return;
    }
    operation->start(communicator_->get());
  }
  if (const std::exception_ptr error = operation->after_start()) std::rethrow_exception(error);
}

/// Creates the worker thread that starts the queued operations. The caller holds the mutex, so the
/// thread begins its work only after the caller has released the mutex.
void Submissions::add_worker() {
  if (working_) return;
  if (!communicator_) exchange_ = std::make_shared<StoreExchange>(group_, store_);
  // The pool is made here, because an exception in the new thread would end the process.
  (void)CompletionPool::instance();
  // The thread is detached, because it may still wait for other ranks when the group is destroyed.
  std::thread([self = shared_from_this()]() mutable {
    const CompletionPool::Guest guest;
    // The thread releases `self` before `guest` is destroyed, because this release may free tensors
    // of Python. CompletionPool::stop() waits for the thread only while `guest` exists.
    std::exchange(self, nullptr)->work();
  }).detach();
  working_ = true;
}

void Submissions::work() {
  c10::setThreadName("tutti_torch");
  try {
    if (!communicator()) create_communicator();
    start_queued();
  } catch (...) {
    // The other ranks may have started the operation that this rank could not start.
    fail(std::current_exception());
  }
}

void Submissions::create_communicator() {
  std::shared_ptr<StoreExchange> exchange;
  {
    const std::lock_guard lock(mutex_);
    if (end_) std::rethrow_exception(end_);
    exchange = exchange_;
  }
  std::shared_ptr<Communicator> made = Communicator::create(group_, *exchange);
  const std::lock_guard lock(mutex_);
  exchange_ = nullptr;
  if (end_) {
    made->abort("the group was aborted during its creation");
    std::rethrow_exception(end_);
  }
  communicator_ = std::move(made);
}

void Submissions::start_queued() {
  std::unique_lock lock(mutex_);
  while (!queue_.empty()) {
    std::shared_ptr<Operation> operation = queue_.front();
    const std::shared_ptr<Communicator> communicator = communicator_;
    if (!operation->plan.steps) {
      // The lock is held during the start, so that a message from another thread starts only after
      // this operation. If the start throws, fail_all() ends the operation, which is still queued.
      operation->start(communicator->get());
      queue_.pop_front();
      queued_messages_ -= operation->plan.is_message() ? 1 : 0;
      lock.unlock();
      (void)operation->after_start();
    } else {
      queue_.pop_front();
      lock.unlock();
      operation->run_steps(communicator->get());
    }
    operation.reset();  // may free tensors of Python, so this thread must not hold the mutex
    lock.lock();
    if (end_) return;  // the function that has set end_ ends the queued operations
  }
  working_ = false;
}

void Submissions::fail_all(const std::exception_ptr& error) {
  std::list<std::shared_ptr<Operation>> queued;
  {
    const std::lock_guard lock(mutex_);
    if (!end_) end_ = error;
    exchange_ = nullptr;
    working_ = false;
    queued_messages_ = 0;
    queued.swap(queue_);
  }
  for (const auto& operation : queued) operation->end(error);
}

void Submissions::fail(const std::exception_ptr& error) {
  fail_all(error);
  if (const auto present = communicator())
    present->abort("an operation could not be started or ended");
}

Submissions::Ending Submissions::refuse(const std::string& how) {
  const std::lock_guard lock(mutex_);
  if (!end_) end_ = backend_error("Tutti: group '" + group_->name + "' was " + how);
  return {exchange_, end_};
}

void Submissions::abort(const std::string& reason) {
  if (group_->in_child()) return;
  const Ending ending = refuse("aborted at rank " + std::to_string(group_->rank) + ": " + reason);
  if (ending.exchange) ending.exchange->cancel(reason);
  if (const auto present = communicator()) present->abort(reason.c_str());
  fail_all(ending.error);
}

void Submissions::shut_down(std::chrono::milliseconds patience) {
  if (group_->in_child()) return;
  const Ending ending = refuse("shut down: call init_process_group or new_group again");
  if (ending.exchange) ending.exchange->cancel("the group was shut down before all ranks had come");
  fail_all(ending.error);
  std::shared_ptr<Communicator> last;
  {
    const std::lock_guard lock(mutex_);
    last = std::move(communicator_);
  }
  if (last) last->finalize(patience);
}

std::shared_ptr<Communicator> Submissions::communicator() {
  const std::lock_guard lock(mutex_);
  return communicator_;
}

std::string Submissions::absence() {
  const std::lock_guard lock(mutex_);
  return exchange_ ? exchange_->absence() : "";
}

std::vector<std::pair<std::string, std::uint64_t>> Submissions::counters() {
  auto all = list(group_->counts);
  if (const auto present = communicator()) {
    const auto inner = present->counters();
    all.insert(all.end(), inner.begin(), inner.end());
  }
  return all;
}

Failure Submissions::status() {
  std::shared_ptr<Communicator> communicator;
  {
    const std::lock_guard lock(mutex_);
    if (end_) return {TUTTI_ABORTED, "the group has ended", {}};
    communicator = communicator_;
  }
  return communicator ? communicator->status() : Failure{};
}

}  // namespace tutti::torch_backend
