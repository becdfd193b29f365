// Collectives that move bytes.
#include <utility>

#include "backend.hpp"

namespace tutti::torch_backend {
namespace {

using c10d::OpType;

void check_list(const char* name, const Tensors& list, int size) {
  if (list.size() != static_cast<std::size_t>(size))
    raise(name, ": the list has ", list.size(), " tensors: pass one for each of ", size, " ranks");
  check_tensors(name, list);
}

const Tensors& list_of_ranks(const char* name, const TensorLists& lists, int size) {
  if (lists.size() != 1) raise(name, ": ", lists.size(), " lists were given: pass one");
  check_list(name, lists.front(), size);
  return lists.front();
}

void check_block(const char* name, const at::Tensor& tensor, std::uint64_t expected) {
  if (tensor.nbytes() == expected) return;
  raise(name, ": this rank's own tensor has ", tensor.nbytes(), " bytes and its block ", expected,
        ": pass tensors of one size");
}

void check_type(const char* name, const at::Tensor& a, const at::Tensor& b) {
  if (a.scalar_type() == b.scalar_type()) return;
  raise(name, ": input and output have types ", a.scalar_type(), " and ", b.scalar_type(),
        ": convert them to one type");
}

void check_equal(const char* name, const std::vector<std::uint64_t>& sizes) {
  if (!all_equal(sizes))
    raise(name, ": the tensors of the list differ in size: pass tensors of one size");
}

/// Sizes in bytes of the blocks into which `splits` cut dimension 0; equal sizes if there are no
/// splits.
std::vector<std::uint64_t> split_sizes(const char* which, const at::Tensor& tensor,
                                       const std::vector<std::int64_t>& splits, int size) {
  const std::int64_t rows = tensor.dim() == 0 ? 1 : tensor.size(0);
  const std::uint64_t row_bytes = rows == 0 ? 0 : tensor.nbytes() / static_cast<std::size_t>(rows);
  std::vector<std::int64_t> counts = splits;
  if (counts.empty()) {
    if (rows % size != 0) {
      raise("all_to_all_single: dimension 0 of the ", which, " has ", rows, " rows, which ", size,
            " ranks cannot share equally: pass split sizes");
    }
    counts.assign(static_cast<std::size_t>(size), rows / size);
  }
  if (counts.size() != static_cast<std::size_t>(size)) {
    raise("all_to_all_single: ", counts.size(), " ", which, " split sizes were given: pass ", size);
  }
  std::int64_t sum = 0;
  std::vector<std::uint64_t> sizes;
  for (const std::int64_t count : counts) {
    if (count < 0)
      raise("all_to_all_single: an ", which, " split size is ", count, ": use 0 or more");
    sum += count;
    sizes.push_back(static_cast<std::uint64_t>(count) * row_bytes);
  }
  if (sum != rows) {
    raise("all_to_all_single: the ", which, " split sizes add up to ", sum, " and dimension 0 is ",
          rows, ": make them equal");
  }
  return sizes;
}

/// The address at a byte offset in a buffer; null if the buffer is null.
const void* address_in(Bytes whole, std::uint64_t offset) {
  return whole.data == nullptr ? nullptr : static_cast<char*>(whole.data) + offset;
}

void add_allgather_of_list(const Group& group, Operation& operation, const Tensors& list,
                           const at::Tensor& input) {
  const char* const name = operation.plan.name;
  check_list(name, list, group.size), check_tensor(name, input);
  check_type(name, input, list.front());
  Blocks blocks = blocks_of(sizes_of(list));
  const auto own_rank = static_cast<std::size_t>(group.rank);
  check_block(name, input, blocks.sizes[own_rank]);
  const Bytes all = operation.staging.write_all(list);
  const Bytes own =
      operation.staging.read_apart(input, all, address_in(all, blocks.offsets[own_rank]));
  if (all.count != 0 && all_equal(blocks.sizes)) {
    operation.plan.calls.push_back(Call::collective(TUTTI_ALLGATHER, own, all));
  } else if (all.count != 0) {
    operation.plan.calls.push_back(
        Call::collective(TUTTI_ALLGATHERV, own, all).receive_blocks(std::move(blocks)));
  }
  operation.plan.results.insert(operation.plan.results.end(), list.begin(), list.end());
}

}  // namespace

WorkPointer TuttiBackend::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  const char* const name = "broadcast";
  const at::Tensor& tensor = only_tensor(name, tensors);
  const bool root = is_root(name, options.rootRank);
  const auto operation = prepare(OpType::BROADCAST, name, Terms(options));
  Staging& staging = operation->staging;
  const Bytes bytes = root ? staging.read(tensor) : staging.write(tensor);
  if (bytes.count != 0) {
    operation->plan.calls.push_back(
        Call::collective(TUTTI_BROADCAST, {}, bytes, static_cast<int>(options.rootRank)));
  }
  operation->plan.results = tensors;
  return issue(operation);
}

void TuttiBackend::add_allgather(Operation& operation, const at::Tensor& output,
                                 const at::Tensor& input) {
  const char* const name = operation.plan.name;
  check_tensor(name, output), check_tensor(name, input), check_type(name, input, output);
  if (output.nbytes() != input.nbytes() * static_cast<std::size_t>(group_->size)) {
    raise(name, ": the output has ", output.numel(), " elements and the input ", input.numel(),
          ": pass an output of ", group_->size, " times the input");
  }
  const Bytes all = operation.staging.write(output);
  const Bytes own = operation.staging.read_apart(
      input, all, address_in(all, input.nbytes() * static_cast<std::size_t>(group_->rank)));
  if (all.count != 0) operation.plan.calls.push_back(Call::collective(TUTTI_ALLGATHER, own, all));
  operation.plan.results.push_back(output);
}

WorkPointer TuttiBackend::_allgather_base(at::Tensor& output, at::Tensor& input,
                                          const c10d::AllgatherOptions& options) {
  const auto operation = prepare(OpType::_ALLGATHER_BASE, "all_gather_into_tensor", Terms(options));
  add_allgather(*operation, output, input);
  return issue(operation);
}

WorkPointer TuttiBackend::allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                          const c10d::AllgatherOptions& options) {
  const char* const name = "all_gather_into_tensor_coalesced";
  if (outputs.size() != inputs.size())
    raise(name, ": ", inputs.size(), " inputs and ", outputs.size(), " outputs: pass equally many");
  const auto operation = prepare(OpType::COALESCED, name, Terms(options));
  for (std::size_t i = 0; i < outputs.size(); ++i) add_allgather(*operation, outputs[i], inputs[i]);
  return issue(operation);
}

WorkPointer TuttiBackend::allgather(TensorLists& outputs, Tensors& inputs,
                                    const c10d::AllgatherOptions& options) {
  const auto operation = prepare(OpType::ALLGATHER, "all_gather", Terms(options));
  const char* const name = operation->plan.name;
  add_allgather_of_list(*group_, *operation, list_of_ranks(name, outputs, group_->size),
                        only_tensor(name, inputs));
  return issue(operation);
}

WorkPointer TuttiBackend::allgather_coalesced(TensorLists& outputs, Tensors& inputs,
                                              const c10d::AllgatherOptions& options) {
  const char* const name = "all_gather_coalesced";
  if (outputs.size() != static_cast<std::size_t>(group_->size))
    raise(name, ": ", outputs.size(), " lists were given: pass one for each of ", group_->size,
          " ranks");
  for (const Tensors& list : outputs)
    if (list.size() != inputs.size())
      raise(name, ": ", inputs.size(), " inputs and a list of ", list.size(),
            " outputs: pass equally many");
  const auto operation = prepare(OpType::ALLGATHER_COALESCED, name, Terms(options));
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    Tensors of_ranks;
    for (const Tensors& list : outputs) of_ranks.push_back(list[i]);
    add_allgather_of_list(*group_, *operation, of_ranks, inputs[i]);
  }
  return issue(operation);
}

WorkPointer TuttiBackend::gather(TensorLists& outputs, Tensors& inputs,
                                 const c10d::GatherOptions& options) {
  const char* const name = "gather";
  const at::Tensor& input = only_tensor(name, inputs);
  const bool root = is_root(name, options.rootRank);
  if (!root && !outputs.empty())
    raise(name, ": rank ", group_->rank, " is not the root and gave outputs: pass none");
  const auto operation = prepare(OpType::GATHER, name, Terms(options));
  Bytes all;
  if (root) {
    const Tensors& list = list_of_ranks(name, outputs, group_->size);
    const auto sizes = sizes_of(list);
    check_equal(name, sizes), check_type(name, input, list.front());
    check_block(name, input, sizes.front());
    all = operation->staging.write_all(list);
    operation->plan.results = list;
  }
  const Bytes own = operation->staging.read_apart(input, all);
  if (own.count != 0) {
    operation->plan.calls.push_back(
        Call::collective(TUTTI_GATHER, own, all, static_cast<int>(options.rootRank)));
  }
  return issue(operation);
}

WorkPointer TuttiBackend::scatter(Tensors& outputs, TensorLists& inputs,
                                  const c10d::ScatterOptions& options) {
  const char* const name = "scatter";
  const at::Tensor& output = only_tensor(name, outputs);
  const bool root = is_root(name, options.rootRank);
  if (!root && !inputs.empty())
    raise(name, ": rank ", group_->rank, " is not the root and gave inputs: pass none");
  const auto operation = prepare(OpType::SCATTER, name, Terms(options));
  Bytes all;
  if (root) {
    const Tensors& list = list_of_ranks(name, inputs, group_->size);
    const auto sizes = sizes_of(list);
    check_equal(name, sizes), check_type(name, output, list.front());
    check_block(name, output, sizes.front());
    all = operation->staging.read_all(list);
  }
  const Bytes own = operation->staging.write_apart(output, all);
  if (own.count != 0) {
    operation->plan.calls.push_back(
        Call::collective(TUTTI_SCATTER, all, own, static_cast<int>(options.rootRank)));
  }
  operation->plan.results = outputs;
  return issue(operation);
}

WorkPointer TuttiBackend::alltoall_base(at::Tensor& output, at::Tensor& input,
                                        std::vector<std::int64_t>& output_splits,
                                        std::vector<std::int64_t>& input_splits,
                                        const c10d::AllToAllOptions& options) {
  const char* const name = "all_to_all_single";
  check_tensor(name, output), check_tensor(name, input), check_type(name, input, output);
  Blocks receive = blocks_of(split_sizes("output", output, output_splits, group_->size));
  Blocks send = blocks_of(split_sizes("input", input, input_splits, group_->size));
  const auto operation = prepare(OpType::ALLTOALL_BASE, name, Terms(options));
  const Bytes from = operation->staging.read(input);
  const Bytes to = operation->staging.write_apart(output, from);
  const bool equal = output_splits.empty() && input_splits.empty();
  if (equal && from.count != to.count)
    raise(name, ": input and output have ", from.count, " and ", to.count,
          " bytes: pass tensors of equal size");
  if (equal && from.count != 0) {
    operation->plan.calls.push_back(Call::collective(TUTTI_ALLTOALL, from, to));
  } else if (!equal) {
    // A rank that has no bytes to send or receive calls Alltoallv, too, because other ranks may
    // have bytes.
    operation->plan.calls.push_back(Call::collective(TUTTI_ALLTOALLV, from, to)
                                        .send_blocks(std::move(send))
                                        .receive_blocks(std::move(receive)));
  }
  operation->plan.results = {output};
  return issue(operation);
}

WorkPointer TuttiBackend::alltoall(Tensors& outputs, Tensors& inputs,
                                   const c10d::AllToAllOptions& options) {
  const char* const name = "all_to_all";
  check_list(name, inputs, group_->size), check_list(name, outputs, group_->size);
  check_type(name, inputs.front(), outputs.front());
  const auto operation = prepare(OpType::ALLTOALL, name, Terms(options));
  const Bytes sent = operation->staging.read_all(inputs);
  const Bytes received = operation->staging.write_all(outputs, sent);
  operation->plan.calls.push_back(Call::collective(TUTTI_ALLTOALLV, sent, received)
                                      .send_blocks(blocks_of(sizes_of(inputs)))
                                      .receive_blocks(blocks_of(sizes_of(outputs))));
  operation->plan.results = outputs;
  return issue(operation);
}

WorkPointer TuttiBackend::barrier(const c10d::BarrierOptions& options) {
  const auto operation = prepare(OpType::BARRIER, "barrier", Terms(options));
  operation->plan.calls.push_back(Call::collective(TUTTI_BARRIER, {}, {}));
  return issue(operation);
}

}  // namespace tutti::torch_backend
