// The size of a random test. An environment variable can set a larger or smaller size than usual.
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
