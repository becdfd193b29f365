// Internal to src/reduction: the inner loops of Reducer, one table for each implementation.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "reduction/element_type.hpp"

namespace tutti::reduction {

/// Computes dst[i] = dst[i] op src[i].
using AccumulateFunction = void (*)(std::byte* dst, const std::byte* src, std::size_t count);
/// Computes dst[i] = ((a0[i] op a1[i]) op a2[i]) ...; at least two operands.
using CombineFunction = void (*)(std::byte* dst, const std::byte* const* operands,
                                 std::size_t operand_count, std::size_t count);
/// Computes dst[i] = src[i] * f, where f is the element at `factor`.
using ScaleFunction = void (*)(std::byte* dst, const std::byte* src, std::size_t count,
                               const std::byte* factor);
/// Computes dst[i] = dst[i] / divisor.
using DivideFunction = void (*)(std::byte* dst, std::size_t count, std::uint32_t divisor);

struct FoldKernels {
  AccumulateFunction accumulate = nullptr;
  CombineFunction combine = nullptr;
};

/// Number of operations that have their own kernel. `average` and `premultiplied_sum` use the
/// kernel of `sum`: `average` divides afterwards, `premultiplied_sum` multiplies before.
inline constexpr std::size_t kFoldOperations = 7;
constexpr std::size_t fold_index(Operation operation) {
  return operation > Operation::bit_xor ? static_cast<std::size_t>(Operation::sum)
                                        : static_cast<std::size_t>(operation);
}

/// The functions of one implementation; null for each pair of operation and type that
/// is_supported() excludes.
struct KernelTable {
  const char* name;
  bool (*runs_here)();
  std::array<std::array<FoldKernels, kElementTypes>, kFoldOperations> folds;
  std::array<ScaleFunction, kElementTypes> scale;
  std::array<DivideFunction, kElementTypes> divide;
};

/// The reference implementation: plain C++, one element after the other.
const KernelTable& scalar_kernels();
#if defined(__x86_64__)
const KernelTable& avx2_kernels();
const KernelTable& avx512_kernels();
#endif

/// Fills a table with the functions of Fold<operation, type> and Single<type>.
template <template <Operation, ElementType> class Fold, template <ElementType> class Single>
struct KernelTableMaker {
  template <Operation kOperation, ElementType kType>
  static constexpr FoldKernels fold() {
    if constexpr (is_supported(kOperation, kType)) {
      return {Fold<kOperation, kType>::accumulate, Fold<kOperation, kType>::combine};
    } else {
      return {};
    }
  }
  template <Operation kOperation, std::size_t... kTypes>
  static constexpr std::array<FoldKernels, kElementTypes> row(std::index_sequence<kTypes...>) {
    return {fold<kOperation, static_cast<ElementType>(kTypes)>()...};
  }
  template <std::size_t... kRows, std::size_t... kTypes>
  static constexpr KernelTable make(const char* name, bool (*runs_here)(),
                                    std::index_sequence<kRows...>,
                                    std::index_sequence<kTypes...> types) {
    return {name,
            runs_here,
            {row<static_cast<Operation>(kRows)>(types)...},
            {Single<static_cast<ElementType>(kTypes)>::scale...},
            {Single<static_cast<ElementType>(kTypes)>::divide...}};
  }
  static constexpr KernelTable make(const char* name, bool (*runs_here)()) {
    return make(name, runs_here, std::make_index_sequence<kFoldOperations>(),
                std::make_index_sequence<kElementTypes>());
  }
};

}  // namespace tutti::reduction
