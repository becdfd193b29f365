// Tests the rate that is measured from the arrivals of an Allgather's blocks.
#include "engine/multicast/arrival_meter.hpp"

#include <gtest/gtest.h>

namespace tutti::engine {
namespace {

constexpr std::uint64_t kBytes = 1 << 20;

/// Records the arrival of a block: the first chunk arrives at `now`, and a further kBytes arrive
/// after `milliseconds`. Moves `now` to the end of the arrival.
void arrive(ArrivalMeter& meter, Instant& now, std::uint32_t block, std::int64_t milliseconds) {
  meter.arrived(now, block, 0, true);
  now = now + Nanoseconds(milliseconds * 1'000'000);
  meter.arrived(now, block, kBytes, false);
}

TEST(ArrivalMeter, Rate_ofBlocksThatArriveInTurns_isTheMedianOfTheirRates) {
  Instant now{1'000'000};
  ArrivalMeter meter(5, true);
  EXPECT_EQ(meter.bytes_per_second(), 0u);
  arrive(meter, now, 1, 1);
  arrive(meter, now, 2, 4);
  arrive(meter, now, 4, 2);
  EXPECT_EQ(meter.bytes_per_second(), kBytes * 500);
}

// A receive worker may report an arrival after the rank has all blocks. At that time the rank may
// already have read the rate, which it tells the other ranks.
TEST(ArrivalMeter, Block_thatArrivesAfterTheRateWasRead_stillChangesTheRate) {
  Instant now{1'000'000};
  ArrivalMeter meter(4, true);
  arrive(meter, now, 2, 1);
  EXPECT_EQ(meter.bytes_per_second(), kBytes * 1000);
  arrive(meter, now, 3, 4);
  arrive(meter, now, 0, 2);
  EXPECT_EQ(meter.bytes_per_second(), kBytes * 500);
}

}  // namespace
}  // namespace tutti::engine
