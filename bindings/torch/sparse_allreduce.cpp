#include "sparse_allreduce.hpp"

#include <ATen/core/LegacyTypeDispatch.h>

#include <numeric>
#include <utility>

#include "call.hpp"
#include "failure.hpp"

namespace tutti::torch_backend {

SparseAllreduce::SparseAllreduce(std::shared_ptr<Group> group, const at::Tensor& tensor,
                                 const c10d::ReduceOp& operation)
    : group_(std::move(group)), tensor_(tensor) {
  if (!tensor.is_sparse()) {
    raise("sparse all_reduce: the tensor has layout ", tensor.layout(),
          ": pass a sparse COO tensor");
  }
  if (!tensor.device().is_cpu())
    raise("sparse all_reduce: the tensor is on device ", tensor.device(), ": pass tensor.cpu()");
  if (operation != c10d::ReduceOp::SUM)
    raise("sparse all_reduce: only ReduceOp.SUM exists: use it, or pass tensor.to_dense()");
}

void SparseAllreduce::check(tutti_status_t status) const {
  if (const Failure failure = last_failure(status))
    std::rethrow_exception(error_of(*group_, "sparse all_reduce", failure));
}

std::vector<std::int64_t> SparseAllreduce::gather_counts(tutti_comm_t* comm,
                                                         std::int64_t own) const {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(group_->size));
  check(tutti_allgather(comm, &own, counts.data(), sizeof own, nullptr));
  return counts;
}

at::Tensor SparseAllreduce::gather_rows(tutti_comm_t* comm, const at::Tensor& own,
                                        const std::vector<std::int64_t>& counts) const {
  std::vector<std::int64_t> shape = own.sizes().vec();
  shape[0] = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  at::Tensor all = at::empty(shape, own.options());
  if (all.numel() == 0) return all;
  const auto row_bytes = all.nbytes() / static_cast<std::size_t>(shape[0]);
  std::vector<std::uint64_t> sizes;
  for (const std::int64_t count : counts)
    sizes.push_back(static_cast<std::uint64_t>(count) * row_bytes);
  const Blocks blocks = blocks_of(std::move(sizes));
  const void* const data = own.numel() == 0 ? nullptr : own.data_ptr();
  check(tutti_allgatherv(comm, data, all.data_ptr(), all.nbytes(), blocks.sizes.data(),
                         blocks.offsets.data(), nullptr));
  return all;
}

void SparseAllreduce::run(tutti_comm_t* comm) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const at::Tensor own = tensor_.coalesce();
  if (comm == nullptr) {
    tensor_.copy_(own);
    return;
  }
  // Row i of `places` has the indices of element i of the sparse tensor, and row i of `values` has
  // the data of this element.
  const at::Tensor places = own._indices().t().contiguous();
  const at::Tensor values = own._values().contiguous();
  const std::vector<std::int64_t> counts = gather_counts(comm, places.size(0));
  const at::Tensor all_places = gather_rows(comm, places, counts).t().contiguous();
  const at::Tensor all_values = gather_rows(comm, values, counts);
  const at::Tensor whole =
      at::sparse_coo_tensor(all_places, all_values, tensor_.sizes(), tensor_.options());
  tensor_.copy_(whole.coalesce());
}

}  // namespace tutti::torch_backend
