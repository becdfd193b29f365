#include "staging.hpp"

#include <ATen/core/LegacyTypeDispatch.h>

#include <algorithm>

#include "failure.hpp"

namespace tutti::torch_backend {
namespace {

bool is_plain(const at::Tensor& tensor) {
  return tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg();
}

Bytes bytes_of(const at::Tensor& tensor) {
  // An empty tensor gets a null pointer, because data_ptr() throws for some empty tensors without
  // storage.
  const auto count = static_cast<std::size_t>(tensor.nbytes());
  return {count == 0 ? nullptr : tensor.data_ptr(), count};
}

/// True if the tensors lie in memory one after the other, without gaps.
bool are_consecutive(const std::vector<at::Tensor>& tensors) {
  const char* next = nullptr;
  for (const at::Tensor& tensor : tensors) {
    if (!is_plain(tensor)) return false;
    const Bytes bytes = bytes_of(tensor);
    if (bytes.count == 0) continue;
    const char* const begin = static_cast<const char*>(bytes.data);
    if (next != nullptr && begin != next) return false;
    next = begin + bytes.count;
  }
  return true;
}

bool overlap(Bytes a, Bytes b) {
  const auto* const begin = static_cast<const char*>(a.data);
  const auto* const other = static_cast<const char*>(b.data);
  return a.count != 0 && b.count != 0 && begin < other + b.count && other < begin + a.count;
}

std::int64_t elements_of(const std::vector<at::Tensor>& tensors) {
  std::int64_t elements = 0;
  for (const at::Tensor& tensor : tensors) elements += tensor.numel();
  return elements;
}

}  // namespace

at::Tensor Staging::copy_of(const at::Tensor& tensor, bool filled) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  at::Tensor copy =
      at::empty(tensor.sizes(), tensor.options().memory_format(at::MemoryFormat::Contiguous));
  if (filled) copy.copy_(tensor);
  counts_->staged_tensors += 1;
  counts_->staged_bytes += copy.nbytes();
  kept_.push_back(copy);
  return copy;
}

Bytes Staging::read(const at::Tensor& tensor) {
  kept_.push_back(tensor);
  return bytes_of(is_plain(tensor) ? tensor : copy_of(tensor, true));
}

Bytes Staging::read_apart(const at::Tensor& tensor, Bytes written, const void* allowed) {
  const Bytes own = read(tensor);
  if (!overlap(own, written) || (allowed != nullptr && own.data == allowed)) return own;
  return bytes_of(copy_of(tensor, true));
}

Bytes Staging::write(const at::Tensor& tensor) {
  kept_.push_back(tensor);
  if (is_plain(tensor)) return bytes_of(tensor);
  written_.emplace_back(copy_of(tensor, false), tensor);
  return bytes_of(written_.back().first);
}

Bytes Staging::write_apart(const at::Tensor& tensor, Bytes read, const void* allowed) {
  if (is_plain(tensor)) {
    const Bytes own = bytes_of(tensor);
    if (overlap(own, read) && (allowed == nullptr || own.data != allowed)) {
      kept_.push_back(tensor);
      written_.emplace_back(copy_of(tensor, false), tensor);
      return bytes_of(written_.back().first);
    }
  }
  return write(tensor);
}

Bytes Staging::update(const at::Tensor& tensor) {
  kept_.push_back(tensor);
  if (is_plain(tensor)) return bytes_of(tensor);
  written_.emplace_back(copy_of(tensor, true), tensor);
  return bytes_of(written_.back().first);
}

Bytes Staging::all(const std::vector<at::Tensor>& tensors, bool written, Bytes other) {
  kept_.insert(kept_.end(), tensors.begin(), tensors.end());
  if (are_consecutive(tensors)) {
    Bytes whole;
    for (const at::Tensor& tensor : tensors) {
      const Bytes one = bytes_of(tensor);
      if (whole.data == nullptr) whole.data = one.data;
      whole.count += one.count;
    }
    if (!overlap(whole, other)) return whole;
  }
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const at::Tensor flat = at::empty({elements_of(tensors)}, tensors.front().options());
  kept_.push_back(flat);
  std::int64_t offset = 0;
  for (const at::Tensor& tensor : tensors) {
    const at::Tensor part = flat.narrow(0, offset, tensor.numel()).view(tensor.sizes());
    if (written) {
      written_.emplace_back(part, tensor);
    } else {
      part.copy_(tensor);
    }
    offset += tensor.numel();
  }
  counts_->staged_tensors += tensors.size();
  counts_->staged_bytes += flat.nbytes();
  return bytes_of(flat);
}

Bytes Staging::read_all(const std::vector<at::Tensor>& tensors) { return all(tensors, false, {}); }

Bytes Staging::write_all(const std::vector<at::Tensor>& tensors, Bytes read) {
  return all(tensors, true, read);
}

void Staging::write_back() {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  for (const auto& [copy, tensor] : written_) tensor.copy_(copy);
}

void check_tensor(const char* operation, const at::Tensor& tensor) {
  if (!tensor.defined()) raise(operation, ": a tensor is undefined: pass a tensor");
  if (!tensor.device().is_cpu()) {
    raise(operation, ": a tensor is on device ", tensor.device(),
          ": pass tensor.cpu(), or use init_process_group(\"cpu:tutti,", tensor.device().type(),
          ":...\") with a backend for that device");
  }
  if (tensor.layout() != at::kStrided) {
    raise(operation, ": a tensor has layout ", tensor.layout(),
          ": pass tensor.to_dense(); only all_reduce takes sparse COO tensors");
  }
  if (tensor.is_quantized())
    raise(operation, ": a tensor is quantized: pass tensor.int_repr() or tensor.dequantize()");
}

const at::Tensor& only_tensor(const char* operation, const std::vector<at::Tensor>& tensors) {
  if (tensors.size() != 1)
    raise(operation, ": ", tensors.size(), " tensors were given: pass one at each rank");
  check_tensor(operation, tensors.front());
  return tensors.front();
}

void check_tensors(const char* operation, const std::vector<at::Tensor>& tensors) {
  if (tensors.empty()) raise(operation, ": the list of tensors is empty: pass one or more");
  for (const at::Tensor& tensor : tensors) {
    check_tensor(operation, tensor);
    if (tensor.scalar_type() == tensors.front().scalar_type()) continue;
    raise(operation, ": tensors of types ", tensors.front().scalar_type(), " and ",
          tensor.scalar_type(), " are mixed: convert them to one type");
  }
}

std::vector<std::uint64_t> sizes_of(const std::vector<at::Tensor>& tensors) {
  std::vector<std::uint64_t> sizes;
  for (const at::Tensor& tensor : tensors) sizes.push_back(tensor.nbytes());
  return sizes;
}

bool all_equal(const std::vector<std::uint64_t>& sizes) {
  return std::all_of(sizes.begin(), sizes.end(),
                     [&](std::uint64_t size) { return size == sizes.front(); });
}

}  // namespace tutti::torch_backend
