// The reduction of libtutti for an operation and an element type of torch.
#pragma once

#include <ATen/ATen.h>
#include <tutti/tutti.h>

#include <array>
#include <cstddef>

#include "torch_version.hpp"

namespace tutti::torch_backend {

/// A reduction in the terms of libtutti. An element type that libtutti lacks is mapped: bool to one
/// byte with bitwise operations, a complex number to a pair of real numbers.
struct Reduction {
  std::uint32_t type = TUTTI_FLOAT32;
  std::uint32_t operation = TUTTI_SUM;
  std::array<std::byte, 8> factor{};    ///< factor of TUTTI_PREMULTIPLIED_SUM, as one element
  double factor_value = 1;              ///< value of `factor`
  at::ScalarType element = at::kFloat;  ///< torch's element type, which is mapped to `type`

  tutti_reduction_t view() const {
    return {sizeof(tutti_reduction_t), type, operation, factor.data()};
  }
};

/// Throws if the elements of `tensor` cannot be combined by `operation`.
Reduction reduction_of(const c10d::ReduceOp& operation, const at::Tensor& tensor);

}  // namespace tutti::torch_backend
