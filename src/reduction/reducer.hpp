// Reductions of vectors with the same bits everywhere: whatever the processor, the vector length,
// the alignment, and whether operands come two by two or all at once.
//
// The order of the operands is the caller's: `combine` folds from the left in the order given, and
// equals a chain of `accumulate` calls in that order. An ordered collective names its operands in
// rank order; a fast, unordered one calls `accumulate` as they come. That choice is not made here.
//
// What makes it reproducible:
//  - vectors are cut across elements only; operands are never re-associated, nothing is fused
//    (a * b + c rounds twice), integers wrap
//  - float16 and bfloat16 are computed in float32 and rounded back after *each* step (nearest, ties
//    to even). Partial results therefore fit the element type, so that a chain of hops equals one
//    fold at one place; the price is the precision of a running float32 sum
//  - a NaN that is a result is the type's positive quiet NaN without payload, since what hardware
//    does with payloads depends on the order that a compiler gives to two operands
//  - min and max are IEEE 754-2019's minimum and maximum: a NaN wins, -0 is below +0; they do not
//    depend on the order at all
//  - denormals count as what they are: the thread's floating-point mode must be the default one (no
//    flush to zero)
//
// A vector combined from a single operand is a copy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "reduction/element_type.hpp"
#include "tutti/status.hpp"

namespace tutti::reduction {

struct KernelTable;

/// One operation on one type, in the fastest implementation that runs here. Stateless: may be used
/// by any thread. Pointers need no alignment. Counts are in elements.
class Reducer {
 public:
  /// Unsupported where the pair means nothing (bitwise on floats).
  static Result<Reducer> create(Operation operation, ElementType type);
  /// "avx512", "avx2", "scalar": what runs here, fastest first; the last is the reference.
  static std::vector<std::string_view> implementations();
  /// The same by another implementation; invalid_argument where that does not run here.
  Result<Reducer> with_implementation(std::string_view name) const;

  Operation operation() const { return operation_; }
  ElementType type() const { return type_; }
  std::string_view implementation() const;

  /// dst = dst op src. The two are the same memory or do not overlap.
  void accumulate(std::byte* dst, const std::byte* src, std::size_t count) const;
  /// dst = a0 op a1 op ... op ak, from the left; every operand is read once and dst written once.
  /// An operand is dst itself or does not overlap it. Without operands nothing happens.
  void combine(std::byte* dst, std::span<const std::byte* const> operands, std::size_t count) const;

  /// What a contribution goes through before it is sent: for premultiplied_sum, dst = src * factor
  /// (one element of the type, at `factor`), otherwise a copy. dst may be src.
  void prepare(std::byte* dst, const std::byte* src, std::size_t count,
               const std::byte* factor) const;
  /// What the folded vector goes through at its owner: for average, dst = dst / contributions
  /// (integers are cut towards zero; at most 2^24 contributions are exact in float32).
  void finish(std::byte* dst, std::size_t count, std::uint32_t contributions) const;

  /// All of it in one pass over memory: prepares each operand by its own factor (premultiplied_sum
  /// only; elements of the type, one behind the other), combines, finishes.
  void reduce(std::byte* dst, std::span<const std::byte* const> operands, std::size_t count,
              const std::byte* factors = nullptr) const;

 private:
  Reducer(Operation operation, ElementType type, const KernelTable& kernels)
      : operation_(operation), type_(type), kernels_(&kernels) {}
  /// combine() of `count` elements from the `at`th on, more operands than a core follows at once.
  void combine_block(std::byte* dst, std::span<const std::byte* const> operands, std::size_t at,
                     std::size_t count) const;

  Operation operation_;
  ElementType type_;
  const KernelTable* kernels_;
};

}  // namespace tutti::reduction
