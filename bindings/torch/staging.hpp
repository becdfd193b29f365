// Provides libtutti with contiguous memory for tensors: the memory of the tensor itself, or of a
// copy.
#pragma once

#include <ATen/ATen.h>

#include <utility>
#include <vector>

#include "call.hpp"
#include "group.hpp"

namespace tutti::torch_backend {

/// The tensors of one operation. libtutti uses the memory of a contiguous tensor directly, and a
/// contiguous copy of any other tensor. write_back() copies the results from the copies to the
/// tensors.
class Staging {
 public:
  explicit Staging(Counts& counts) : counts_(&counts) {}

  Bytes read(const at::Tensor& tensor);
  /// As read(), but copies a tensor that overlaps `written`, the memory that the call writes. A
  /// tensor that begins at `allowed` is not copied, because the call is then in place.
  Bytes read_apart(const at::Tensor& tensor, Bytes written, const void* allowed = nullptr);
  Bytes write(const at::Tensor& tensor);
  /// As write(), but lets the call write to a copy if the tensor overlaps `read`, the memory that
  /// the call reads. A tensor that begins at `allowed` gets no copy, because the call is then in
  /// place.
  Bytes write_apart(const at::Tensor& tensor, Bytes read, const void* allowed = nullptr);
  /// The memory of a tensor that the call may both read and write.
  Bytes update(const at::Tensor& tensor);
  /// The tensors of a list as one contiguous buffer, in the order of the list.
  Bytes read_all(const std::vector<at::Tensor>& tensors);
  Bytes write_all(const std::vector<at::Tensor>& tensors, Bytes read = {});

  /// Stores the results in the original tensors, if libtutti has written them to copies.
  void write_back();

 private:
  at::Tensor copy_of(const at::Tensor& tensor, bool filled);
  Bytes all(const std::vector<at::Tensor>& tensors, bool written, Bytes other);

  Counts* counts_;
  std::vector<at::Tensor> kept_;
  /// The copies to which libtutti writes, each paired with its original tensor.
  std::vector<std::pair<at::Tensor, at::Tensor>> written_;
};

/// Throws unless the tensor is dense, not quantized and in the memory of the CPU.
void check_tensor(const char* operation, const at::Tensor& tensor);
/// The only tensor of a list. torch passes a list, because other backends take one tensor for each
/// device.
const at::Tensor& only_tensor(const char* operation, const std::vector<at::Tensor>& tensors);
/// Calls check_tensor for each tensor; also throws if the list is empty or the element types
/// differ.
void check_tensors(const char* operation, const std::vector<at::Tensor>& tensors);

/// The size of each tensor, in bytes.
std::vector<std::uint64_t> sizes_of(const std::vector<at::Tensor>& tensors);
bool all_equal(const std::vector<std::uint64_t>& sizes);

}  // namespace tutti::torch_backend
