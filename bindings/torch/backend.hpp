// The backend "tutti" of torch.distributed.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "submissions.hpp"
#include "torch_version.hpp"
#include "work.hpp"

namespace tutti::torch_backend {

using Tensors = std::vector<at::Tensor>;
using TensorLists = std::vector<Tensors>;
using WorkPointer = c10::intrusive_ptr<c10d::Work>;

/// The options that every operation of c10d has.
struct Terms {
  /// Time limit of the operation; a value of 0 or less selects the limit of the group.
  std::chrono::milliseconds timeout;
  bool will_wait = false;  ///< true: Python waits right after the issue (no async_op)

  explicit Terms(std::chrono::milliseconds limit) : timeout(limit) {}
  template <typename Options>
  explicit Terms(const Options& options) : timeout(options.timeout) {
    if constexpr (requires { options.asyncOp; }) will_wait = !options.asyncOp;
  }
};

class TuttiBackend : public c10d::Backend {
 public:
  TuttiBackend(std::shared_ptr<Group> group, c10::intrusive_ptr<c10d::Store> store);
  ~TuttiBackend() override;

  const std::string getBackendName() const override { return "tutti"; }
  c10::intrusive_ptr<Options> getBackendOptions() TUTTI_OVERRIDE_FROM_2_9;
  void setTimeout(std::chrono::milliseconds timeout) TUTTI_OVERRIDE_FROM_2_9;
  bool supportsCoalescing() const override { return false; }
  void startCoalescing() override;
  WorkPointer endCoalescing() override;

  WorkPointer broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  WorkPointer allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkPointer allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkPointer allreduce_coalesced(Tensors& tensors,
                                  const c10d::AllreduceCoalescedOptions& options) override;
  WorkPointer reduce(Tensors& tensors, const c10d::ReduceOptions& options) override;
  WorkPointer allgather(TensorLists& outputs, Tensors& inputs,
                        const c10d::AllgatherOptions& options) override;
  WorkPointer _allgather_base(at::Tensor& output, at::Tensor& input,
                              const c10d::AllgatherOptions& options) override;
  WorkPointer allgather_coalesced(TensorLists& outputs, Tensors& inputs,
                                  const c10d::AllgatherOptions& options) override;
  WorkPointer allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                              const c10d::AllgatherOptions& options) override;
  WorkPointer gather(TensorLists& outputs, Tensors& inputs,
                     const c10d::GatherOptions& options) override;
  WorkPointer scatter(Tensors& outputs, TensorLists& inputs,
                      const c10d::ScatterOptions& options) override;
  WorkPointer reduce_scatter(Tensors& outputs, TensorLists& inputs,
                             const c10d::ReduceScatterOptions& options) override;
  WorkPointer _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                   const c10d::ReduceScatterOptions& options) override;
  WorkPointer reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                              const c10d::ReduceScatterOptions& options) override;
  WorkPointer alltoall_base(at::Tensor& output, at::Tensor& input,
                            std::vector<std::int64_t>& output_splits,
                            std::vector<std::int64_t>& input_splits,
                            const c10d::AllToAllOptions& options) override;
  WorkPointer alltoall(Tensors& outputs, Tensors& inputs,
                       const c10d::AllToAllOptions& options) override;
  WorkPointer send(Tensors& tensors, int to, int tag) override;
  WorkPointer recv(Tensors& tensors, int from, int tag) override;
  WorkPointer recvAnysource(Tensors& tensors, int tag) override;
  WorkPointer barrier(const c10d::BarrierOptions& options) override;
  void monitoredBarrier(const c10d::BarrierOptions& options, bool wait_for_all) override;

  void setSequenceNumberForGroup() override {}
  std::uint64_t getSequenceNumberForGroup() override { return sequence_; }
  c10d::ErrorType getError() override;
  void abort() override;
  void shutdown() override;

 private:
  using Issued = std::shared_ptr<Operation>;

  Issued prepare(c10d::OpType type, const char* name, const Terms& terms);
  WorkPointer issue(const Issued& operation);
  void check_rank(const char* name, const char* what, std::int64_t rank) const;
  bool is_root(const char* name, std::int64_t root) const;
  void add_allgather(Operation& operation, const at::Tensor& output, const at::Tensor& input);
  void add_reduce_scatter(Operation& operation, const at::Tensor& output, const at::Tensor& input,
                          const c10d::ReduceOp& reduction);

  std::shared_ptr<Group> group_;
  std::shared_ptr<Submissions> submissions_;
  std::atomic<std::uint64_t> sequence_{0};  ///< number of collectives issued so far
  std::atomic<std::uint64_t> messages_{0};  ///< number of messages issued so far
  std::atomic<std::uint64_t> monitored_barriers_{0};
  std::mutex coalescing_;  ///< guards coalesced_
  std::optional<std::vector<Issued>> coalesced_;
};

}  // namespace tutti::torch_backend
