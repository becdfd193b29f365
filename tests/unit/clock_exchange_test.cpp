// Tests the clock exchange with a reference rank whose answers may contain instants that no real
// clock shows.
#include "engine/core/clock_exchange.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "engine/core/communicator_context.hpp"
#include "fuzz/scripted_endpoint.hpp"
#include "protocol/codec/data_message.hpp"

namespace tutti::engine {
namespace {

constexpr std::int64_t kNow = 1'000'000;

/// The answer of rank 0 to the first clock request.
std::vector<std::byte> answer(std::int64_t at, std::int64_t origin) {
  const std::array<std::int64_t, 3> fields{at, origin, 5};
  std::vector<std::byte> bytes(protocol::kDataHeaderBytes + sizeof fields);
  protocol::encode_data_header(1, 0, bytes.data());
  std::memcpy(&bytes[protocol::kDataHeaderBytes], fields.data(), sizeof fields);
  return bytes;
}

/// Lets rank 0 answer once, with the instants `at` and `origin`, and returns the clock comparison
/// of rank 1.
ClockComparison compare(std::int64_t at, std::int64_t origin, std::uint64_t& rejected) {
  ClockComparison outcome;
  auto owned = std::make_unique<fuzz::ScriptedEndpoint>();
  fuzz::ScriptedEndpoint& endpoint = *owned;
  CommunicatorContext context(Rank{1}, 2, Settings{}, std::move(owned),
                              std::vector<std::string>{"rank 0", "rank 1"});
  context.operations().submit(
      std::make_unique<ClockExchange>([] { return Instant{kNow}; }, 7, outcome));
  context.poll(Instant{kNow});
  endpoint.deliver(Rank{0}, answer(at, origin));
  context.poll(Instant{kNow});
  rejected = context.counters().messages_rejected;
  return outcome;
}

TEST(ClockExchange, OneAnswer_givesTheOffsetBetweenTheClocks) {
  std::uint64_t rejected = 0;
  const ClockComparison outcome = compare(3 * kNow, kNow, rejected);
  EXPECT_EQ(rejected, 0u);
  EXPECT_EQ(outcome.bounds.offset(), Nanoseconds(2 * kNow));
  EXPECT_EQ(outcome.origin, Instant{kNow});
}

TEST(ClockExchange, InstantsNearTheLimitsOf64Bits_areRejected) {
  for (const std::int64_t far : {INT64_MIN, INT64_MIN / 2, INT64_MAX / 2 + 1, INT64_MAX}) {
    std::uint64_t rejected = 0;
    EXPECT_EQ(compare(far, kNow, rejected).bounds.exchanges(), 0u) << far;
    EXPECT_EQ(rejected, 1u) << far;
    EXPECT_EQ(compare(kNow, far, rejected).bounds.exchanges(), 0u) << far;
    EXPECT_EQ(rejected, 1u) << far;
  }
}

}  // namespace
}  // namespace tutti::engine
