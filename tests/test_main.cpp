// The main function of every test program, which runs GoogleTest and reports the stacks of a test
// that hangs.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>

#include "hang_report.hpp"
#include "requirements.hpp"

namespace {

class Signs : public testing::EmptyTestEventListener {
  void OnTestStart(const testing::TestInfo&) override { tutti::test::report_later(); }
  void OnTestEnd(const testing::TestInfo&) override { tutti::test::report_later(); }
};

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (const char* patience_seconds = std::getenv("TUTTI_TEST_HANG_SECONDS")) {
    tutti::test::report_hang_after(std::chrono::seconds(std::atoi(patience_seconds)));
    testing::UnitTest::GetInstance()->listeners().Append(new Signs);
  }
  tutti::test::report_skips();
  return RUN_ALL_TESTS();
}
