#include "requirements.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>

namespace tutti::test {

namespace {

constexpr std::string_view kPrefix = "lacks ";

/// Whether a comma-separated list contains a word.
bool lists(std::string_view list, std::string_view word) {
  while (true) {
    const std::size_t comma = std::min(list.find(','), list.size());
    if (list.substr(0, comma) == word) return true;
    if (comma == list.size()) return false;
    list.remove_prefix(comma + 1);
  }
}

bool known(std::string_view capability) {
  return std::find(kCapabilities.begin(), kCapabilities.end(), capability) != kCapabilities.end();
}

class Skips : public testing::EmptyTestEventListener {
  void OnTestEnd(const testing::TestInfo& test) override {
    for (int i = 0; i < test.result()->total_part_count(); ++i) {
      const testing::TestPartResult& part = test.result()->GetTestPartResult(i);
      if (!part.skipped()) continue;
      std::string reason = part.message();
      EXPECT_TRUE(std::string_view(reason).starts_with(kPrefix))
          << "a skip without a capability: call skip_without() instead of GTEST_SKIP()";
      std::replace(reason.begin(), reason.end(), '\n', ' ');
      if (const char* path = std::getenv("TUTTI_SKIP_LOG")) {
        std::ofstream(path, std::ios::app)
            << fmt::format("{}.{} {}\n", test.test_suite_name(), test.name(), reason);
      }
    }
  }
};

}  // namespace

void skip_without(std::string_view capability, std::string_view reason) {
  const char* required = std::getenv("TUTTI_REQUIRE");
  const std::string text = fmt::format("{}{}: {}", kPrefix, capability, reason);
  if (!known(capability)) FAIL() << "unknown capability: " << text;
  if (required != nullptr && lists(required, capability)) FAIL() << text << " (TUTTI_REQUIRE)";
  GTEST_SKIP() << text;
}

void report_skips() { testing::UnitTest::GetInstance()->listeners().Append(new Skips); }

}  // namespace tutti::test
