// Tests that builds with hardening or with sanitizers check the indexes of containers.
#include <gtest/gtest.h>

#include <vector>

namespace tutti {
namespace {

TEST(ContainerBounds, IndexBeyondTheSize_withinTheCapacity_endsTheProcess) {
  std::vector<int> numbers(8);
  numbers.resize(4);
  const volatile std::size_t beyond = 4;
  EXPECT_DEATH((void)(numbers[beyond] = 1), "Assertion");
}

}  // namespace
}  // namespace tutti
