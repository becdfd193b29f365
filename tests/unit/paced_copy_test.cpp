// Tests a copy in slices, which gets a quarter of the time while there is other work, and otherwise
// runs at full speed.
#include "engine/schedule/paced_copy.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/random.hpp"

namespace tutti::engine {
namespace {

constexpr std::size_t kSlice = PacedCopy::kSliceBytes;
constexpr Nanoseconds kSliceTime{10'000};

std::vector<std::byte> pattern(std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(draw(1, i));
  return bytes;
}

class PacedCopyOf : public testing::Test {
 protected:
  void begin(std::size_t bytes) {
    source_ = pattern(bytes);
    target_.assign(bytes, std::byte{0});
    copy_.begin(source_, target_);
  }
  /// True if exactly the first `bytes` bytes have been copied and the rest of the target is still
  /// zero. Every slice has bytes other than zero, so that each copied slice is visible.
  bool has_come(std::size_t bytes) const {
    const auto end = static_cast<std::ptrdiff_t>(bytes);
    return std::equal(source_.begin(), source_.begin() + end, target_.begin()) &&
           std::all_of(target_.begin() + end, target_.end(),
                       [](std::byte one) { return one == std::byte{0}; });
  }

  std::vector<std::byte> source_;
  std::vector<std::byte> target_;
  PacedCopy copy_;
  Instant now_{1'000'000};
};

TEST_F(PacedCopyOf, OtherWorkLimitsTheCopyToAQuarterOfTheTime) {
  begin(4 * kSlice);
  for (std::size_t slice = 1; slice <= 4; ++slice) {
    ASSERT_TRUE(copy_.go_on(now_, true)) << slice;
    EXPECT_TRUE(has_come(slice * kSlice)) << slice;
    if (slice == 4) break;
    EXPECT_LE(copy_.due(), now_) << "the time of a slice must be measured at once";
    now_ = now_ + kSliceTime;
    EXPECT_FALSE(copy_.go_on(now_, true));
    EXPECT_EQ(copy_.due(), now_ + kSliceTime * 3);
    now_ = copy_.due();
  }
  EXPECT_FALSE(copy_.pending());
  EXPECT_EQ(copy_.due(), kNever);
  EXPECT_FALSE(copy_.go_on(now_ + kSliceTime, true));
  EXPECT_EQ(target_, source_);
}

TEST_F(PacedCopyOf, CopyWithoutOtherWorkDoesNotWait) {
  begin(2 * kSlice + 5);
  ASSERT_TRUE(copy_.go_on(now_, true));
  now_ = now_ + kSliceTime;
  ASSERT_TRUE(copy_.go_on(now_, false));
  ASSERT_TRUE(copy_.go_on(now_, false));
  EXPECT_FALSE(copy_.pending());
  EXPECT_EQ(target_, source_);
}

TEST_F(PacedCopyOf, SecondCopyStartsAfterTheFirst) {
  begin(kSlice + 1);
  while (copy_.pending()) copy_.go_on(now_, false);
  begin(3);
  EXPECT_TRUE(copy_.go_on(now_, true));
  EXPECT_FALSE(copy_.pending());
  EXPECT_EQ(target_, source_);
}

}  // namespace
}  // namespace tutti::engine
