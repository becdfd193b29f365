// Tests that destructors of static objects can log until the process has ended.
#include "observe/log.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

namespace tutti::observe {
namespace {

/// Writes to the log in its destructor.
struct LastWord {
  ~LastWord() { complain("the last word"); }
};

[[noreturn]] void exit_with_a_last_word() {
  // This object is constructed before the log, so it is destroyed after everything that the log
  // constructs.
  static const LastWord last;
  complain("the first word");
  std::exit(0);
}

TEST(Log, LineOfAStaticDestructor_isWritten) {
  EXPECT_EXIT(exit_with_a_last_word(), testing::ExitedWithCode(0), "the last word");
}

}  // namespace
}  // namespace tutti::observe
