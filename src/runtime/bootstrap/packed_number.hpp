// Reads numbers from the packed JSON of another process. The JSON library rounds or wraps a number
// that its type does not hold; these functions refuse it.
#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

namespace tutti::runtime {

/// The value as a whole number. Throws std::out_of_range, which names `name`, for any other value
/// and for a number that `Whole` does not hold.
template <typename Whole>
Whole whole(const nlohmann::json& value, const std::string& name) {
  const bool unsigned_number = value.is_number_unsigned();
  const std::uint64_t number = unsigned_number ? value.get<std::uint64_t>() : 0;
  if (!unsigned_number || number > std::numeric_limits<Whole>::max()) {
    throw std::out_of_range(name + " is not a whole number in its range");
  }
  return static_cast<Whole>(number);
}

}  // namespace tutti::runtime
