// Tests that a root retains a block until it is acknowledged, even if no earlier call of the last
// 2^31 has confirmed anything.
#include "engine/core/retention.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/core/communicator_context.hpp"
#include "fuzz/scripted_endpoint.hpp"

namespace tutti::engine {
namespace {

constexpr Instant kNow{1'000'000};

TEST(Retention, BlockSentHalfTheEpochRangeAfterTheLastAck_isRetainedUntilItsOwnAck) {
  constexpr std::uint32_t kLater = (1u << 31) + 200;
  const std::array<std::byte, 8> block{};
  CommunicatorContext context(Rank{1}, 2, Settings{}, std::make_unique<fuzz::ScriptedEndpoint>(),
                              std::vector<std::string>{"rank 0", "rank 1"});
  Retention& retention = context.retention();
  retention.begin(1);
  retention.keep(kNow, 1, block);
  retention.begin(2);
  EXPECT_FALSE(retention.all_at(Rank{0})) << "the next Broadcast must not release the block";
  retention.on_ack(Rank{0}, 1);
  EXPECT_TRUE(retention.all_at(Rank{0}));
  retention.begin(kLater);
  retention.keep(kNow, kLater, block);
  EXPECT_FALSE(retention.all_at(Rank{0}));
  retention.on_ack(Rank{0}, kLater);
  EXPECT_TRUE(retention.all_at(Rank{0}));
}

}  // namespace
}  // namespace tutti::engine
