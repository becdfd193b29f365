#include "reduction.hpp"

#include <cstring>

#include "failure.hpp"

namespace tutti::torch_backend {
namespace {

const char* name_of(c10d::ReduceOp::RedOpType operation) {
  static constexpr const char* kNames[] = {"SUM",  "AVG", "PRODUCT", "MIN",       "MAX",
                                           "BAND", "BOR", "BXOR",    "PREMUL_SUM"};
  return operation <= c10d::ReduceOp::PREMUL_SUM ? kNames[operation] : "UNUSED";
}

[[noreturn]] void refuse(c10d::ReduceOp::RedOpType operation, const at::Tensor& tensor,
                         const char* choices) {
  raise("ReduceOp.", name_of(operation), " of ", tensor.scalar_type(), " does not exist: use ",
        choices);
}

/// The type of libtutti for a type of torch, after complex and bool are mapped.
std::uint32_t type_of(const at::Tensor& tensor, at::ScalarType element) {
  switch (element) {
    case at::kChar:
      return TUTTI_INT8;
    case at::kShort:
      return TUTTI_INT16;
    case at::kInt:
      return TUTTI_INT32;
    case at::kLong:
      return TUTTI_INT64;
    case at::kByte:
      return TUTTI_UINT8;
    case at::kUInt16:
      return TUTTI_UINT16;
    case at::kUInt32:
      return TUTTI_UINT32;
    case at::kUInt64:
      return TUTTI_UINT64;
    case at::kHalf:
      return TUTTI_FLOAT16;
    case at::kBFloat16:
      return TUTTI_BFLOAT16;
    case at::kFloat:
      return TUTTI_FLOAT32;
    case at::kDouble:
      return TUTTI_FLOAT64;
    default:
      raise("elements of type ", tensor.scalar_type(),
            " cannot be reduced: convert the tensor to bfloat16 or float32, or gather its bytes");
  }
}

std::uint32_t operation_of(c10d::ReduceOp::RedOpType operation, const at::Tensor& tensor) {
  switch (operation) {
    case c10d::ReduceOp::SUM:
      return TUTTI_SUM;
    case c10d::ReduceOp::AVG:
      return TUTTI_AVERAGE;
    case c10d::ReduceOp::PRODUCT:
      return TUTTI_PROD;
    case c10d::ReduceOp::MIN:
      return TUTTI_MIN;
    case c10d::ReduceOp::MAX:
      return TUTTI_MAX;
    case c10d::ReduceOp::BAND:
      return TUTTI_AND;
    case c10d::ReduceOp::BOR:
      return TUTTI_OR;
    case c10d::ReduceOp::BXOR:
      return TUTTI_XOR;
    case c10d::ReduceOp::PREMUL_SUM:
      return TUTTI_PREMULTIPLIED_SUM;
    default:
      refuse(operation, tensor, "SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR or PREMUL_SUM");
  }
}

std::uint32_t logical_operation_of(c10d::ReduceOp::RedOpType operation, const at::Tensor& tensor) {
  switch (operation) {
    case c10d::ReduceOp::SUM:
    case c10d::ReduceOp::MAX:
    case c10d::ReduceOp::BOR:
      return TUTTI_OR;
    case c10d::ReduceOp::PRODUCT:
    case c10d::ReduceOp::MIN:
    case c10d::ReduceOp::BAND:
      return TUTTI_AND;
    case c10d::ReduceOp::BXOR:
      return TUTTI_XOR;
    default:
      refuse(operation, tensor, "SUM, PRODUCT, MIN, MAX, BAND, BOR or BXOR");
  }
}

bool is_linear(c10d::ReduceOp::RedOpType operation) {
  return operation == c10d::ReduceOp::SUM || operation == c10d::ReduceOp::AVG ||
         operation == c10d::ReduceOp::PREMUL_SUM;
}

bool is_bitwise(c10d::ReduceOp::RedOpType operation) {
  return operation == c10d::ReduceOp::BAND || operation == c10d::ReduceOp::BOR ||
         operation == c10d::ReduceOp::BXOR;
}

double factor_of(const c10d::ReduceOp& operation) {
  const auto* supplement = dynamic_cast<const PremultipliedFactor*>(operation.supplement_.get());
  if (supplement == nullptr) {
    raise(
        "ReduceOp.PREMUL_SUM has no factor: make it by "
        "torch.distributed._make_nccl_premul_sum(factor)");
  }
  if (!supplement->tensor_factor.defined()) return supplement->double_factor;
  return supplement->tensor_factor.cpu().item().toDouble();
}

template <typename Element>
void store(Reduction& reduction, double value) {
  const auto element = static_cast<Element>(value);
  static_assert(sizeof element <= sizeof reduction.factor);
  std::memcpy(reduction.factor.data(), &element, sizeof element);
}

void store_factor(Reduction& reduction, double value) {
  reduction.factor_value = value;
  switch (reduction.element) {
    case at::kChar:
      return store<std::int8_t>(reduction, value);
    case at::kShort:
      return store<std::int16_t>(reduction, value);
    case at::kInt:
      return store<std::int32_t>(reduction, value);
    case at::kLong:
      return store<std::int64_t>(reduction, value);
    case at::kByte:
      return store<std::uint8_t>(reduction, value);
    case at::kUInt16:
      return store<std::uint16_t>(reduction, value);
    case at::kUInt32:
      return store<std::uint32_t>(reduction, value);
    case at::kUInt64:
      return store<std::uint64_t>(reduction, value);
    case at::kHalf:
      return store<at::Half>(reduction, value);
    case at::kBFloat16:
      return store<at::BFloat16>(reduction, value);
    case at::kFloat:
      return store<float>(reduction, value);
    default:
      return store<double>(reduction, value);
  }
}

}  // namespace

Reduction reduction_of(const c10d::ReduceOp& operation, const at::Tensor& tensor) {
  const c10d::ReduceOp::RedOpType kind = operation;
  Reduction reduction;
  reduction.element = tensor.scalar_type();
  if (reduction.element == at::kBool) {
    reduction.element = at::kByte;
    reduction.type = TUTTI_UINT8;
    reduction.operation = logical_operation_of(kind, tensor);
    return reduction;
  }
  if (tensor.is_complex()) {
    if (!is_linear(kind)) refuse(kind, tensor, "SUM, AVG or PREMUL_SUM");
    reduction.element = at::toRealValueType(reduction.element);
  }
  if (is_bitwise(kind) && at::isFloatingType(reduction.element))
    refuse(kind, tensor, "SUM, AVG, PRODUCT, MIN, MAX or PREMUL_SUM");
  reduction.type = type_of(tensor, reduction.element);
  reduction.operation = operation_of(kind, tensor);
  if (kind == c10d::ReduceOp::PREMUL_SUM) store_factor(reduction, factor_of(operation));
  return reduction;
}

}  // namespace tutti::torch_backend
