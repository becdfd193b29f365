#include "engine/core/operation_queue.hpp"

#include "base/error.hpp"

namespace tutti::engine {

void OperationQueue::take_submissions(const Status& failed) {
  for (auto* next = submitted_.front(); next != nullptr; next = submitted_.front()) {
    if (failed.ok()) {
      queued_.push_back(std::move(*next));
    } else {
      complete(**next, failure_from(failed, "the communicator has failed: {}", failed.message()));
    }
    submitted_.pop();
  }
}

std::unique_ptr<Operation> OperationQueue::take_queued() {
  std::unique_ptr<Operation> next = std::move(queued_.front());
  queued_.pop_front();
  return next;
}

Operation& OperationQueue::activate(std::unique_ptr<Operation> operation) {
  active_.push_back(std::move(operation));
  ++next_epoch_;
  ++counters_.collectives_started;
  return *active_.back();
}

Missing OperationQueue::missing_of(const Completion& completion) const {
  const auto is_it = [&](const auto& one) { return one->completion().get() == &completion; };
  const auto active = std::find_if(active_.begin(), active_.end(), is_it);
  if (active != active_.end()) return (*active)->missing();
  if (std::none_of(queued_.begin(), queued_.end(), is_it)) return {};
  const auto earlier = std::find_if(active_.begin(), active_.end(),
                                    [](const auto& one) { return !one->locally_complete(); });
  if (earlier == active_.end()) return {};
  Missing first = (*earlier)->missing();
  first.text = fmt::format("the end of the earlier {} #{}{}{}", (*earlier)->description().operation,
                           (*earlier)->epoch(),
                           first.text.empty() ? "" : ", which still waits for ", first.text);
  return first;
}

std::unique_ptr<Operation> OperationQueue::take(std::size_t position) {
  std::unique_ptr<Operation> taken = std::move(active_[position]);
  active_.erase(active_.begin() + static_cast<std::ptrdiff_t>(position));
  return taken;
}

void OperationQueue::complete(Operation& operation, const Status& status) {
  ++(status.ok() ? counters_.collectives_completed : counters_.collectives_failed);
  operation.completion()->end(status);
}

// Each collective is removed only after it has ended. If an exception interrupts this function, a
// second call ends the remaining collectives.
void OperationQueue::fail_all(std::span<const Status> results, const Status& failed) {
  for (std::size_t i = 0; !active_.empty(); ++i) {
    complete(*active_.front(), i < results.size() ? results[i] : failed);
    active_.erase(active_.begin());
  }
  if (unbegun_) complete(*unbegun_, failed);
  unbegun_.reset();
  for (; !queued_.empty(); queued_.pop_front()) {
    complete(*queued_.front(),
             failure_from(failed,
                          "the collective was not begun, because the communicator has failed: {}",
                          failed.message()));
  }
}

Instant OperationQueue::next_deadline() const {
  Instant deadline = kNever;
  for (const auto& operation : active_) {
    deadline = std::min(deadline, operation->next_deadline());
  }
  return deadline;
}

std::uint64_t OperationQueue::progress() const {
  std::uint64_t progress = counters_.collectives_started + counters_.collectives_completed;
  for (const auto& operation : active_) progress += operation->completion()->chunks_present;
  return progress;
}

}  // namespace tutti::engine
