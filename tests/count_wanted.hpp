// The number of runs of a random test, which an environment variable can change.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>

namespace tutti::test {

/// The number in an environment variable, or `usual` if the variable is not set. A test with a
/// variable that holds no number above 0 fails.
inline std::uint64_t count_wanted(const char* variable, std::uint64_t usual) {
  const char* const text = std::getenv(variable);
  if (text == nullptr) return usual;
  char* end = nullptr;
  const std::uint64_t count = std::strtoull(text, &end, 10);
  EXPECT_TRUE(*end == '\0' && count > 0) << variable << "=" << text << " is no number of runs";
  return count;
}

}  // namespace tutti::test
