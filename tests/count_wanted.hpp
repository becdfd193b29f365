// The number of runs of a random test, which an environment variable can change.
#pragma once

#include <cstdint>
#include <cstdlib>

namespace tutti::test {

/// The number in an environment variable, or `usual` if the variable is not set.
inline std::uint64_t count_wanted(const char* variable, std::uint64_t usual) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? usual : std::strtoull(text, nullptr, 10);
}

}  // namespace tutti::test
