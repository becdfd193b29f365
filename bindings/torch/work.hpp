// torch's handle of operations under way.
#pragma once

#include <torch/csrc/distributed/c10d/Work.hpp>

#include <atomic>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "operation.hpp"

namespace tutti::torch_backend {

/// One operation, or all operations between startCoalescing and endCoalescing.
class OperationWork : public c10d::Work {
 public:
  OperationWork(int rank, c10d::OpType type, const char* title,
                std::vector<std::shared_ptr<Operation>> operations);
  ~OperationWork() override;

  bool isCompleted() override;
  bool isSuccess() const override;
  std::exception_ptr exception() const override;
  int sourceRank() const override;
  std::vector<at::Tensor> result() override;
  void synchronize() override;
  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
  void abort() override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
  c10::intrusive_ptr<c10::ivalue::Future> getFutureResult() override;
  std::uint64_t getSequencenumber() const override;

  const std::vector<std::shared_ptr<Operation>>& operations() const { return operations_; }

 private:
  /// The profiler's record of the operation. Only the first call of end() ends the record. The
  /// destructor of OperationWork does not call end(), because the profiler may have stopped by
  /// then.
  class Recording {
   public:
    explicit Recording(std::function<void()> callback) : callback_(std::move(callback)) {}
    void end();

   private:
    std::function<void()> callback_;
    std::atomic<bool> ended_{false};
  };

  void end_recording();
  c10::intrusive_ptr<c10::ivalue::Future> future_of_all();

  std::vector<std::shared_ptr<Operation>> operations_;
  std::shared_ptr<Recording> recording_;  ///< null if no profiler records the operation
};

}  // namespace tutti::torch_backend
