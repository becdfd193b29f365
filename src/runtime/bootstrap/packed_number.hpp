// Numbers in packed JSON that somebody else wrote. The JSON library rounds, wraps, or leaves
// undefined what a type does not hold; here that is refused.
#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

namespace tutti::runtime {

/// The whole number that a value is; throws std::out_of_range, which says `name`, where it is none,
/// or one that `Whole` does not hold.
template <typename Whole>
Whole whole(const nlohmann::json& value, const std::string& name) {
  const bool unsigned_number = value.is_number_unsigned();
  const std::uint64_t number = unsigned_number ? value.get<std::uint64_t>() : 0;
  if (!unsigned_number || number > std::numeric_limits<Whole>::max()) {
    throw std::out_of_range(name + " is no number that it may be");
  }
  return static_cast<Whole>(number);
}

}  // namespace tutti::runtime
