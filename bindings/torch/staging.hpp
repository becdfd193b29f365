// The memory of tensors as libtutti needs it: contiguous, or copied when it is not.
#pragma once

#include <ATen/ATen.h>

#include <utility>
#include <vector>

#include "call.hpp"
#include "group.hpp"

namespace tutti::torch_backend {

/// The tensors of one operation. Contiguous ones are used as they are; others have a contiguous
/// copy, which is written back when the operation is done.
class Staging {
 public:
  explicit Staging(Counts& counts) : counts_(&counts) {}

  Bytes read(const at::Tensor& tensor);
  /// As read, but a copy if the tensor overlaps `written` other than by beginning at `allowed`.
  Bytes read_apart(const at::Tensor& tensor, Bytes written, const void* allowed = nullptr);
  Bytes write(const at::Tensor& tensor);
  /// As write, but to a copy if the tensor overlaps `read` other than by beginning at `allowed`.
  Bytes write_apart(const at::Tensor& tensor, Bytes read, const void* allowed = nullptr);
  /// For a tensor that the call may both read and write.
  Bytes update(const at::Tensor& tensor);
  /// Tensors of a list, one behind the other.
  Bytes read_all(const std::vector<at::Tensor>& tensors);
  Bytes write_all(const std::vector<at::Tensor>& tensors, Bytes read = {});

  /// Copies what libtutti has written into the tensors that have a copy.
  void write_back();
  /// Drops all tensors.
  void clear();

 private:
  at::Tensor copy_of(const at::Tensor& tensor, bool filled);
  Bytes all(const std::vector<at::Tensor>& tensors, bool written, Bytes other);

  Counts* counts_;
  std::vector<at::Tensor> kept_;
  std::vector<std::pair<at::Tensor, at::Tensor>> written_;  ///< copy, and the tensor that it is of
};

/// Throws unless the tensor is a dense one in the memory of the CPU.
void check_tensor(const char* operation, const at::Tensor& tensor);
/// The one tensor of a list that has one for each device in other backends.
const at::Tensor& only_tensor(const char* operation, const std::vector<at::Tensor>& tensors);
/// Also throws unless all have one element type.
void check_tensors(const char* operation, const std::vector<at::Tensor>& tensors);

/// Bytes of each tensor.
std::vector<std::uint64_t> sizes_of(const std::vector<at::Tensor>& tensors);
bool all_equal(const std::vector<std::uint64_t>& sizes);

}  // namespace tutti::torch_backend
