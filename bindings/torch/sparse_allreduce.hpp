// The sum of sparse COO tensors of all ranks.
#pragma once

#include <ATen/ATen.h>
#include <tutti/tutti.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "group.hpp"
#include "torch_version.hpp"

namespace tutti::torch_backend {

/// Gathers from all ranks the counts of elements, then the indices and the values of the elements,
/// and adds up the values of equal indices.
class SparseAllreduce {
 public:
  /// Throws if the tensor or the operation cannot be used.
  SparseAllreduce(std::shared_ptr<Group> group, const at::Tensor& tensor,
                  const c10d::ReduceOp& operation);

  /// Computes the sum and stores it in the tensor; blocks. `comm` is null in a group of one rank.
  void run(tutti_comm_t* comm);

 private:
  std::vector<std::int64_t> gather_counts(tutti_comm_t* comm, std::int64_t own) const;
  /// Gathers the rows of all ranks; rank r contributes counts[r] rows.
  at::Tensor gather_rows(tutti_comm_t* comm, const at::Tensor& own,
                         const std::vector<std::int64_t>& counts) const;
  void check(tutti_status_t status) const;

  std::shared_ptr<Group> group_;
  at::Tensor tensor_;
};

}  // namespace tutti::torch_backend
