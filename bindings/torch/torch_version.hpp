// The version of torch for which the adapter is compiled, and the names that differ between
// versions.
#pragma once

#include <torch/version.h>

#include <torch/csrc/distributed/c10d/Types.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>

/// True if the headers are those of torch MAJOR.MINOR or later.
#define TUTTI_TORCH_FROM(major, minor) \
  (TORCH_VERSION_MAJOR > (major) ||    \
   (TORCH_VERSION_MAJOR == (major) && TORCH_VERSION_MINOR >= (minor)))

#if TUTTI_TORCH_FROM(2, 9)
#define TUTTI_OVERRIDE_FROM_2_9 override
#else
#define TUTTI_OVERRIDE_FROM_2_9
#endif

namespace tutti::torch_backend {

#if TUTTI_TORCH_FROM(2, 13)
using PremultipliedFactor = c10d::PreMulSumSupplement;
#else
using PremultipliedFactor = c10d::NCCLPreMulSumSupplement;
#endif

#if TUTTI_TORCH_FROM(2, 12)
inline constexpr c10d::OpType kReduceScatterCoalesced =
    c10d::OpType::REDUCE_SCATTER_TENSOR_COALESCED;
#else
inline constexpr c10d::OpType kReduceScatterCoalesced = c10d::OpType::COALESCED;
#endif

}  // namespace tutti::torch_backend
