// Computes the expected results of the collectives of src/trigger without trigger units. The scalar
// reducer combines whole vectors in the order that trigger/build/builders.hpp promises.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/random.hpp"
#include "reduction/half_float.hpp"
#include "reduction/reducer.hpp"
#include "trigger/build/builders.hpp"

namespace tutti::trigger {

using Bytes = std::vector<std::byte>;

/// The contribution of a rank. Floats are fractions between -50 and 50, so that the bits of a sum
/// depend on the order of its operands.
inline Bytes contribution(reduction::ElementType type, std::size_t elements, std::uint64_t seed) {
  const std::size_t bytes = reduction::element_bytes(type);
  Bytes made(elements * bytes);
  for (std::size_t i = 0; i < elements; ++i) {
    std::uint64_t bits = draw(seed, i);
    const double real = static_cast<double>(bits >> 11) * 0x1p-53 * 100.0 - 50.0;
    const auto narrow = static_cast<float>(real);
    if (type == reduction::ElementType::float16) bits = reduction::float_to_half(narrow);
    if (type == reduction::ElementType::bfloat16) bits = reduction::float_to_bfloat(narrow);
    if (type == reduction::ElementType::float32) std::memcpy(&bits, &narrow, sizeof narrow);
    if (type == reduction::ElementType::float64) std::memcpy(&bits, &real, sizeof real);
    std::memcpy(made.data() + i * bytes, &bits, bytes);
  }
  return made;
}

inline Bytes folded(const reduction::Reducer& reducer, Bytes left, const Bytes& right) {
  reducer.accumulate(left.data(), right.data(), left.size() / element_bytes(reducer.type()));
  return left;
}

/// Combines contributions from left to right: ((a0 op a1) op a2) ...
inline Bytes fold_by_rank(const reduction::Reducer& reducer, const std::vector<Bytes>& inputs) {
  Bytes result = inputs[0];
  for (std::size_t i = 1; i < inputs.size(); ++i) result = folded(reducer, result, inputs[i]);
  return result;
}

/// Combines contributions as a tree. Of 2^n + x contributions, the first 2x are combined in pairs,
/// which leaves 2^n operands; each further level combines all operands in pairs.
inline Bytes fold_as_tree(const reduction::Reducer& reducer, std::vector<Bytes> inputs) {
  std::size_t power = 1;
  while (power * 2 <= inputs.size()) power *= 2;
  const std::size_t pairs = inputs.size() - power;
  std::vector<Bytes> level;
  for (std::size_t i = 0; i < 2 * pairs; i += 2) {
    level.push_back(folded(reducer, inputs[i], inputs[i + 1]));
  }
  level.insert(level.end(), inputs.begin() + static_cast<std::ptrdiff_t>(2 * pairs), inputs.end());
  while (level.size() > 1) {
    std::vector<Bytes> next;
    for (std::size_t i = 0; i < level.size(); i += 2) {
      next.push_back(folded(reducer, level[i], level[i + 1]));
    }
    level = std::move(next);
  }
  return level[0];
}

inline Bytes reference_result(CollectiveKind kind, reduction::Operation operation,
                              reduction::ElementType type, const std::vector<Bytes>& inputs) {
  const auto reducer =
      reduction::Reducer::create(operation, type).value().with_implementation("scalar").value();
  Bytes result = kind == CollectiveKind::reduce_flat ? fold_by_rank(reducer, inputs)
                                                     : fold_as_tree(reducer, inputs);
  reducer.finish(result.data(), result.size() / reduction::element_bytes(type),
                 static_cast<std::uint32_t>(inputs.size()));
  return result;
}

}  // namespace tutti::trigger
