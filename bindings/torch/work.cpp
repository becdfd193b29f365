#include "work.hpp"

#include <c10/util/ScopeExit.h>

#include <utility>

#include "failure.hpp"

namespace tutti::torch_backend {

OperationWork::OperationWork(int rank, c10d::OpType type, const char* title,
                             std::vector<std::shared_ptr<Operation>> operations)
    : Work(rank, type, title), operations_(std::move(operations)) {
  if (recordFunctionEndCallback_)
    recording_ = std::make_shared<Recording>(std::move(recordFunctionEndCallback_));
}

OperationWork::~OperationWork() {
  for (const auto& operation : operations_) {
    try {
      operation->abandon();
    } catch (...) {
      log_exception("a freed Work could not hand its operation to the completion pool");
    }
  }
}

void OperationWork::end_recording() {
  if (recording_) recording_->end();
}

void OperationWork::Recording::end() {
  if (!ended_.exchange(true)) callback_();
}

bool OperationWork::isCompleted() {
  bool all = true;
  for (const auto& operation : operations_) all = operation->is_done() && all;
  if (all) end_recording();
  return all;
}

bool OperationWork::isSuccess() const {
  for (const auto& operation : operations_)
    if (!operation->is_done() || operation->error()) return false;
  return true;
}

std::exception_ptr OperationWork::exception() const {
  for (const auto& operation : operations_)
    if (const std::exception_ptr error = operation->error()) return error;
  return nullptr;
}

int OperationWork::sourceRank() const {
  return operations_.empty() ? -1 : operations_.front()->source();
}

std::vector<at::Tensor> OperationWork::result() {
  std::vector<at::Tensor> all;
  for (const auto& operation : operations_)
    all.insert(all.end(), operation->plan.results.begin(), operation->plan.results.end());
  return all;
}

void OperationWork::synchronize() { wait(); }

bool OperationWork::wait(std::chrono::milliseconds timeout) {
  const auto at_end = c10::make_scope_exit([this] { end_recording(); });
  for (const auto& operation : operations_) operation->wait(timeout);
  return true;
}

void OperationWork::abort() {
  for (const auto& operation : operations_) operation->abort();
}

c10::intrusive_ptr<c10::ivalue::Future> OperationWork::getFuture() {
  auto future = future_of_all();
  if (recording_)
    future->addCallback([recording = recording_](c10::ivalue::Future&) { recording->end(); });
  return future;
}

c10::intrusive_ptr<c10::ivalue::Future> OperationWork::future_of_all() {
  if (operations_.size() == 1) return operations_.front()->future();
  auto whole =
      c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
  auto left = std::make_shared<std::atomic<std::size_t>>(operations_.size());
  if (operations_.empty()) whole->markCompleted(c10::IValue(std::vector<at::Tensor>{}));
  for (const auto& operation : operations_) {
    operation->future()->addCallback([whole, left, tensors = result()](c10::ivalue::Future& part) {
      if (part.hasError()) whole->setErrorIfNeeded(part.exception_ptr());
      if (--*left == 0 && !whole->completed()) whole->markCompleted(c10::IValue(tensors));
    });
  }
  return whole;
}

c10::intrusive_ptr<c10::ivalue::Future> OperationWork::getFutureResult() {
  auto outcome = c10::make_intrusive<c10::ivalue::Future>(c10::IntType::get());
  getFuture()->addCallback([outcome](c10::ivalue::Future& done) {
    const auto result = done.hasError() ? c10d::WorkResult::COMM_ERROR : c10d::WorkResult::SUCCESS;
    outcome->markCompleted(c10::IValue(static_cast<std::int64_t>(result)));
  });
  return outcome;
}

std::uint64_t OperationWork::getSequencenumber() const {
  return operations_.empty() ? 0 : operations_.back()->plan.sequence;
}

}  // namespace tutti::torch_backend
