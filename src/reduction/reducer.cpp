#include "reduction/reducer.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/error.hpp"
#include "reduction/kernels.hpp"

namespace tutti::reduction {
namespace {

/// Block size in bytes. A block and the cache lines of the operands together fit into the
/// first-level cache.
constexpr std::size_t kBlockBytes = 4096;
/// Number of operand streams that a core prefetches well. More operands at equal offsets evict one
/// another from the first-level cache.
constexpr std::size_t kStreams = 8;
/// Size in bytes of the buffer for a partial result of more than kStreams operands: long enough for
/// the processor's prefetchers, and short enough for its cache.
constexpr std::size_t kPartialBytes = 32768;

/// All implementations, the fastest first. No memory is allocated, so that `create` does not throw
/// for a type and an operation that exist.
const auto& tables() {
  static const std::array all {
#if defined(__x86_64__)
    &avx512_kernels(), &avx2_kernels(),
#endif
        &scalar_kernels()
  };
  return all;
}

bool runs_here(const KernelTable* table) { return table->runs_here(); }

}  // namespace

Result<Reducer> Reducer::create(Operation operation, ElementType type) {
  const auto o = static_cast<std::size_t>(operation);
  const auto t = static_cast<std::size_t>(type);
  if (o >= kOperations) {
    return failure(Code::invalid_argument,
                   "reduction: no operation has the number {}: use a value of ReduceOperation", o);
  }
  if (t >= kElementTypes) {
    return failure(Code::invalid_argument,
                   "reduction: no element type has the number {}: use a value of DataType", t);
  }
  if (!is_supported(operation, type)) {
    return failure(Code::unsupported,
                   "reduction: {} does not support elements of type {}: use an integer type",
                   to_string(operation), to_string(type));
  }
  static const KernelTable* const fastest =
      *std::find_if(tables().begin(), tables().end(), runs_here);
  return Reducer(operation, type, *fastest);
}

std::vector<std::string_view> Reducer::implementations() {
  std::vector<std::string_view> names;
  for (const KernelTable* table : tables()) {
    if (runs_here(table)) names.emplace_back(table->name);
  }
  return names;
}

Result<Reducer> Reducer::with_implementation(std::string_view name) const {
  for (const KernelTable* table : tables()) {
    if (table->name == name && runs_here(table)) return Reducer(operation_, type_, *table);
  }
  return failure(Code::invalid_argument,
                 "reduction: implementation {} does not run on this processor: use one that "
                 "Reducer::implementations() lists",
                 name);
}

std::string_view Reducer::implementation() const { return kernels_->name; }

void Reducer::accumulate(std::byte* dst, const std::byte* src, std::size_t count) const {
  const std::size_t type = static_cast<std::size_t>(type_);
  kernels_->folds[fold_index(operation_)][type].accumulate(dst, src, count);
}

void Reducer::combine(std::byte* dst, std::span<const std::byte* const> operands,
                      std::size_t count) const {
  const std::size_t type = static_cast<std::size_t>(type_);
  if (operands.empty() || count == 0) return;
  if (operands.size() == 1) {
    std::memmove(dst, operands[0], count * element_bytes(type_));
    return;
  }
  const CombineFunction fold = kernels_->folds[fold_index(operation_)][type].combine;
  if (operands.size() <= kStreams) {
    fold(dst, operands.data(), operands.size(), count);
    return;
  }
  const std::size_t block = kPartialBytes / element_bytes(type_);
  for (std::size_t at = 0; at < count; at += block) {
    combine_block(dst, operands, at, std::min(block, count - at));
  }
}

// The partial result is built in a separate buffer, because dst may be an operand that has not been
// read yet. The buffer is small enough to stay in the cache.
void Reducer::combine_block(std::byte* dst, std::span<const std::byte* const> operands,
                            std::size_t at, std::size_t count) const {
  const std::size_t type = static_cast<std::size_t>(type_);
  const CombineFunction fold = kernels_->folds[fold_index(operation_)][type].combine;
  const std::size_t offset_bytes = at * element_bytes(type_);
  alignas(64) std::array<std::byte, kPartialBytes> partial;
  std::array<const std::byte*, 1 + kStreams> group;
  for (std::size_t next = 0; next < operands.size();) {
    std::size_t size = 0;
    if (next != 0) group[size++] = partial.data();
    const std::size_t until = std::min(next + kStreams, operands.size());
    while (next < until) group[size++] = operands[next++] + offset_bytes;
    fold(next == operands.size() ? dst + offset_bytes : partial.data(), group.data(), size, count);
  }
}

void Reducer::prepare(std::byte* dst, const std::byte* src, std::size_t count,
                      const std::byte* factor) const {
  if (operation_ == Operation::premultiplied_sum) {
    kernels_->scale[static_cast<std::size_t>(type_)](dst, src, count, factor);
  } else if (dst != src && count != 0) {
    std::memmove(dst, src, count * element_bytes(type_));
  }
}

void Reducer::finish(std::byte* dst, std::size_t count, std::uint32_t contributions) const {
  if (operation_ != Operation::average || contributions == 0) return;
  kernels_->divide[static_cast<std::size_t>(type_)](dst, count, contributions);
}

void Reducer::reduce(std::byte* dst, std::span<const std::byte* const> operands, std::size_t count,
                     const std::byte* factors) const {
  const bool scaled = operation_ == Operation::premultiplied_sum && factors != nullptr;
  const auto contributions = static_cast<std::uint32_t>(operands.size());
  if (!scaled && operation_ != Operation::average) return combine(dst, operands, count);
  if (operands.empty()) return;
  const std::size_t bytes = element_bytes(type_);
  const std::size_t block = kBlockBytes / bytes;
  alignas(64) std::array<std::byte, kBlockBytes> folded;
  alignas(64) std::array<std::byte, kBlockBytes> prepared;
  for (std::size_t at = 0; at < count; at += block) {
    const std::size_t some = std::min(block, count - at);
    for (std::size_t i = 0; i < operands.size(); ++i) {
      const std::byte* operand = operands[i] + at * bytes;
      std::byte* target = i == 0 ? folded.data() : prepared.data();
      if (scaled) prepare(target, operand, some, factors + i * bytes);
      if (!scaled && i == 0) std::memcpy(target, operand, some * bytes);
      if (i != 0) accumulate(folded.data(), scaled ? prepared.data() : operand, some);
    }
    finish(folded.data(), some, contributions);
    std::memcpy(dst + at * bytes, folded.data(), some * bytes);
  }
}

}  // namespace tutti::reduction
