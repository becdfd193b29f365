// Reductions of vectors. The bits of a result do not depend on the processor, the vector length,
// the alignment, or on whether operands arrive in pairs or all at once.
//
// The caller chooses the order of the operands. `combine` folds from the left in the given order
// and equals a chain of `accumulate` calls in that order. An ordered collective passes operands in
// rank order; an unordered one calls `accumulate` in order of arrival.
//
// Rules that make the result reproducible:
//   - Vectors are cut between elements only. Operands are never re-associated, no operations are
//     fused (a * b + c rounds twice), and integers wrap.
//   - float16 and bfloat16 are computed in float32 and rounded back after *each* step (nearest,
//     ties to even). Partial results thus fit the element type, and a chain of folds at several
//     ranks equals one fold at one rank. The cost is the precision of a running float32 sum.
//   - A NaN result is the type's positive quiet NaN without payload, because the payload that
//     hardware produces depends on the operand order that a compiler chooses.
//   - min and max are minimum and maximum of IEEE 754-2019 (a NaN wins, -0 is below +0) and do not
//     depend on the order.
//   - Denormals keep their value. The calling thread must be in the default floating-point mode,
//     which does not flush them to zero.
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

/// One operation on one element type, in the fastest implementation that this processor runs.
/// Stateless, so any thread may use it; pointers need no alignment, and counts are in elements.
class Reducer {
 public:
  /// Fails with unsupported if the operation does not apply to the type, such as a bitwise
  /// operation on floats.
  static Result<Reducer> create(Operation operation, ElementType type);
  /// The implementations that this processor runs, fastest first: "avx512", "avx2", "scalar" (the
  /// reference).
  static std::vector<std::string_view> implementations();
  /// The same reduction by the named implementation; fails with invalid_argument if this processor
  /// does not run it.
  Result<Reducer> with_implementation(std::string_view name) const;

  Operation operation() const { return operation_; }
  ElementType type() const { return type_; }
  std::string_view implementation() const;

  /// Computes dst = dst op src. dst and src must be identical, or must not overlap.
  void accumulate(std::byte* dst, const std::byte* src, std::size_t count) const;
  /// Computes dst = ((a0 op a1) op a2) ... op ak; reads each operand once and writes dst once. Each
  /// operand must be dst itself, or must not overlap dst. If there are no operands, nothing is
  /// written.
  void combine(std::byte* dst, std::span<const std::byte* const> operands, std::size_t count) const;

  /// Prepares a contribution before it is sent: dst = src * factor for premultiplied_sum (`factor`
  /// points to one element), otherwise a copy. dst may be src.
  void prepare(std::byte* dst, const std::byte* src, std::size_t count,
               const std::byte* factor) const;
  /// Finishes a reduced vector at the rank that receives it: for `average`, dst = dst /
  /// contributions; other operations change nothing. Integer quotients are truncated. Values of
  /// `contributions` up to 2^24 are exact in float32.
  void finish(std::byte* dst, std::size_t count, std::uint32_t contributions) const;

  /// Does the work of `prepare`, `combine` and `finish` in one pass over memory. `factors` is used
  /// for premultiplied_sum only and has one element of the type for each operand.
  void reduce(std::byte* dst, std::span<const std::byte* const> operands, std::size_t count,
              const std::byte* factors = nullptr) const;

 private:
  Reducer(Operation operation, ElementType type, const KernelTable& kernels)
      : operation_(operation), type_(type), kernels_(&kernels) {}
  /// Combines the elements [at, at + count) of the operands; for calls with more than kStreams
  /// operands.
  void combine_block(std::byte* dst, std::span<const std::byte* const> operands, std::size_t at,
                     std::size_t count) const;

  Operation operation_;
  ElementType type_;
  const KernelTable* kernels_;
};

}  // namespace tutti::reduction
