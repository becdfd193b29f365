// Collectives that combine elements.
#include <utility>

#include "backend.hpp"
#include "reduction.hpp"
#include "sparse_allreduce.hpp"

namespace tutti::torch_backend {
namespace {

using c10d::OpType;

void add_allreduce(Operation& operation, const at::Tensor& tensor,
                   const c10d::ReduceOp& reduction) {
  const Reduction wanted = reduction_of(reduction, tensor);
  const Bytes bytes = operation.staging.update(tensor);
  if (bytes.count != 0)
    operation.plan.calls.push_back(Call::collective(TUTTI_ALLREDUCE, bytes, bytes).reduce(wanted));
}

}  // namespace

WorkPointer TuttiBackend::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  const char* const name = "all_reduce";
  if (tensors.size() == 1 && tensors.front().is_sparse()) return allreduce_sparse(tensors, options);
  const auto operation = prepare(OpType::ALLREDUCE, name, Terms(options));
  add_allreduce(*operation, only_tensor(name, tensors), options.reduceOp);
  operation->plan.results = tensors;
  return issue(operation);
}

WorkPointer TuttiBackend::allreduce_sparse(Tensors& tensors,
                                           const c10d::AllreduceOptions& options) {
  const auto operation = prepare(OpType::_ALLREDUCE_SPARSE, "sparse all_reduce", Terms(options));
  if (tensors.size() != 1)
    raise("sparse all_reduce: ", tensors.size(), " tensors were given: pass one for each rank");
  auto sparse = std::make_shared<SparseAllreduce>(group_, tensors.front(), options.reduceOp);
  operation->plan.steps = [sparse](tutti_comm_t* comm) { sparse->run(comm); };
  operation->plan.results = tensors;
  return issue(operation);
}

WorkPointer TuttiBackend::allreduce_coalesced(Tensors& tensors,
                                              const c10d::AllreduceCoalescedOptions& options) {
  const char* const name = "all_reduce_coalesced";
  const auto operation = prepare(OpType::ALLREDUCE_COALESCED, name, Terms(options));
  for (const at::Tensor& tensor : tensors) {
    check_tensor(name, tensor);
    add_allreduce(*operation, tensor, options.reduceOp);
  }
  operation->plan.results = tensors;
  return issue(operation);
}

WorkPointer TuttiBackend::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  const char* const name = "reduce";
  const at::Tensor& tensor = only_tensor(name, tensors);
  const bool root = is_root(name, options.rootRank);
  const Reduction wanted = reduction_of(options.reduceOp, tensor);
  const auto operation = prepare(OpType::REDUCE, name, Terms(options));
  // The root's tensor is operand and result, but tutti.h documents no in-place Reduce; the root
  // therefore passes a copy of its operand.
  const Bytes result = root ? operation->staging.write(tensor) : Bytes{};
  const Bytes own = operation->staging.read_apart(tensor, result);
  if (own.count != 0) {
    operation->plan.calls.push_back(
        Call::collective(TUTTI_REDUCE, own, result, static_cast<int>(options.rootRank))
            .reduce(wanted));
  }
  operation->plan.results = tensors;
  return issue(operation);
}

void TuttiBackend::add_reduce_scatter(Operation& operation, const at::Tensor& output,
                                      const at::Tensor& input, const c10d::ReduceOp& reduction) {
  const char* const name = operation.plan.name;
  check_tensor(name, output), check_tensor(name, input);
  if (output.scalar_type() != input.scalar_type()) {
    raise(name, ": input and output have types ", input.scalar_type(), " and ",
          output.scalar_type(), ": convert them to one type");
  }
  if (input.nbytes() != output.nbytes() * static_cast<std::size_t>(group_->size)) {
    raise(name, ": the input has ", input.numel(), " elements and the output ", output.numel(),
          ": pass an input of ", group_->size, " times the output");
  }
  const Reduction wanted = reduction_of(reduction, input);
  const Bytes all = operation.staging.read(input);
  const std::size_t offset = output.nbytes() * static_cast<std::size_t>(group_->rank);
  const void* const own_block =
      all.data == nullptr ? nullptr : static_cast<const char*>(all.data) + offset;
  const Bytes own = operation.staging.write_apart(output, all, own_block);
  if (all.count != 0) {
    operation.plan.calls.push_back(Call::collective(TUTTI_REDUCE_SCATTER, all, own).reduce(wanted));
  }
  operation.plan.results.push_back(output);
}

WorkPointer TuttiBackend::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                               const c10d::ReduceScatterOptions& options) {
  const auto operation =
      prepare(OpType::_REDUCE_SCATTER_BASE, "reduce_scatter_tensor", Terms(options));
  add_reduce_scatter(*operation, output, input, options.reduceOp);
  return issue(operation);
}

WorkPointer TuttiBackend::reduce_scatter_tensor_coalesced(
    Tensors& outputs, Tensors& inputs, const c10d::ReduceScatterOptions& options) {
  const char* const name = "reduce_scatter_tensor_coalesced";
  if (outputs.size() != inputs.size())
    raise(name, ": ", inputs.size(), " inputs and ", outputs.size(), " outputs: pass equally many");
  const auto operation = prepare(kReduceScatterCoalesced, name, Terms(options));
  for (std::size_t i = 0; i < outputs.size(); ++i)
    add_reduce_scatter(*operation, outputs[i], inputs[i], options.reduceOp);
  return issue(operation);
}

WorkPointer TuttiBackend::reduce_scatter(Tensors& outputs, TensorLists& inputs,
                                         const c10d::ReduceScatterOptions& options) {
  const char* const name = "reduce_scatter";
  const at::Tensor& output = only_tensor(name, outputs);
  if (inputs.size() != 1 || inputs.front().size() != static_cast<std::size_t>(group_->size))
    raise(name, ": pass one list of ", group_->size, " tensors, one for each rank");
  const Tensors& list = inputs.front();
  check_tensors(name, list);
  Blocks blocks = blocks_of(sizes_of(list));
  const std::uint64_t own_bytes = blocks.sizes[static_cast<std::size_t>(group_->rank)];
  if (output.nbytes() != own_bytes || output.scalar_type() != list.front().scalar_type()) {
    raise(name, ": the output has ", output.nbytes(), " bytes of ", output.scalar_type(),
          " and this rank's input ", own_bytes, " of ", list.front().scalar_type(),
          ": make them equal");
  }
  const Reduction wanted = reduction_of(options.reduceOp, output);
  const auto operation = prepare(OpType::REDUCE_SCATTER, name, Terms(options));
  const Bytes all = operation->staging.read_all(list);
  const Bytes own = operation->staging.write_apart(output, all);
  if (all.count != 0 && all_equal(blocks.sizes)) {
    operation->plan.calls.push_back(
        Call::collective(TUTTI_REDUCE_SCATTER, all, own).reduce(wanted));
  } else if (all.count != 0) {
    operation->plan.calls.push_back(Call::collective(TUTTI_REDUCE_SCATTERV, all, own)
                                        .reduce(wanted)
                                        .send_blocks(std::move(blocks)));
  }
  operation->plan.results = outputs;
  return issue(operation);
}

}  // namespace tutti::torch_backend
