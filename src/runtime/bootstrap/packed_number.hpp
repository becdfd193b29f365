// Reads numbers from the packed JSON of another process. If a number does not fit the requested
// type, `whole` throws. The JSON library itself would round or wrap the number.
#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

namespace tutti::runtime {

/// The value as a whole number. Throws std::out_of_range, with `name` in its text, if the value is
/// not a whole number or does not fit the type `Whole`.
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
