// Tests that a rank which is late can store all chunks that arrive before a ready barrier.
#include "engine/core/barrier_policy.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/core/communicator_context.hpp"
#include "engine/multicast/multicast_operation.hpp"
#include "fuzz/scripted_endpoint.hpp"

namespace tutti::engine {
namespace {

constexpr std::uint32_t kRanks = 64;
constexpr Rank kLate{kRanks - 1};

class LateRank : public testing::Test {
 protected:
  /// Repeats a call until it begins with a ready barrier, and stores the chunks of the calls before
  /// at the late rank, which has begun none of them. `sizes_bytes`: the size of each rank's block.
  void expect_room(const std::function<std::unique_ptr<MulticastOperation>()>& call,
                   const std::vector<std::uint64_t>& sizes_bytes) {
    const Settings& settings = context_.settings();
    BarrierPolicy policy(settings, false);
    UnexpectedChunks store(settings.window_bytes);
    fuzz::SilentQueuePair pair;
    const std::vector<std::byte> data(settings.chunk_bytes);
    std::uint32_t epoch = 1;
    for (auto next = call();; next = call(), ++epoch) {
      next->prepare(context_);
      if (policy.decide(*next, false)) break;
      std::uint32_t psn = 0;
      for (std::uint32_t r = 0; r < sizes_bytes.size(); ++r) {
        for (std::uint64_t left = sizes_bytes[r]; left > 0;) {
          const auto payload = std::span(data).first(std::min(left, data.size()));
          left -= payload.size();
          ASSERT_EQ(
              store.keep({.epoch = epoch, .psn = psn++, .source = rank_of(r), .payload = payload},
                         pair),
              UnexpectedChunks::Kept::stored)
              << "chunk " << psn << " of call " << epoch;
        }
      }
    }
    EXPECT_GT(epoch, 100u) << "a ready barrier came long before the store was full";
  }

  CommunicatorContext context_{kLate, kRanks, Settings{},
                               std::make_unique<fuzz::ScriptedEndpoint>(),
                               std::vector<std::string>(kRanks, "a rank")};
};

TEST_F(LateRank, ChunksOfManyShortBlocks_fitBeforeTheNextBarrier) {
  std::vector<std::uint64_t> sizes(kRanks, 8);
  sizes[index(kLate)] = 0;  // so that the other ranks do not wait for the late rank
  std::vector<std::uint64_t> offsets;
  for (std::uint32_t r = 0; r < kRanks; ++r) offsets.push_back(r * 8);
  std::vector<std::byte> all(kRanks * 8);
  expect_room([&] { return MulticastOperation::allgatherv({}, all, sizes, offsets); }, sizes);
}

TEST_F(LateRank, ShortLastChunksOfBroadcasts_fitBeforeTheNextBarrier) {
  std::vector<std::byte> buffer(3 * context_.settings().chunk_bytes + 1);
  expect_room([&] { return MulticastOperation::broadcast(buffer, Rank{0}); }, {buffer.size()});
}

}  // namespace
}  // namespace tutti::engine
