// Tests a link that loses every long packet while short ones pass, as a switch port with a smaller
// MTU does. Every rank must end with an error that names the rank behind that link.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "job.hpp"
#include "wrapped_device.hpp"

namespace tutti::scenario {
namespace {

constexpr std::uint32_t kChunkBytes = 1024;
constexpr std::uint32_t kRanks = 3;
constexpr std::uint32_t kBehindTheLink = 2;
/// Size of a block that consists of whole chunks, so that the link drops all of them.
constexpr std::size_t kWholeChunks = 1 << 20;
/// Size of a block whose last chunk is short enough to pass the link. The receiver then fetches the
/// other chunks by READ.
constexpr std::size_t kShortLastChunk = kWholeChunks + 100;
constexpr std::size_t kLongestThatPasses = 600;
constexpr auto kPeerTimeout = std::chrono::milliseconds(1500);

class ShortFramesOnly final : public device::FrameTap {
 public:
  unsigned copies(Rank from, Rank to, std::size_t bytes) override {
    const bool passes_link = index(from) == kBehindTheLink || index(to) == kBehindTheLink;
    return passes_link && bytes > kLongestThatPasses ? 0 : 1;
  }
};

/// Fault rules that drop every whole chunk on the link. A short last chunk of a block passes.
std::string lost_chunks(std::size_t block_bytes) {
  const std::size_t chunks = (block_bytes + kChunkBytes - 1) / kChunkBytes;
  const std::size_t lost = block_bytes / kChunkBytes;
  std::string faults;
  for (std::uint32_t block = 0; block < kRanks; ++block) {
    const std::size_t first = block * chunks;
    faults +=
        fmt::format("drop receiver chunk {} psn={}-{}\n",
                    block == kBehindTheLink ? "source=2" : "ranks=2", first, first + lost - 1);
  }
  return faults;
}

/// `reads`: receives the number of READs of all ranks.
std::vector<Status> allgather_over_the_link(Algorithm algorithm, std::size_t block_bytes,
                                            std::atomic<int>& reads) {
  JobSpec spec{.size = kRanks,
               .faults = lost_chunks(block_bytes),
               .tap = std::make_shared<ShortFramesOnly>(),
               .options = small_chunks()};
  spec.options.peer_timeout = kPeerTimeout;
  spec.wrap = watch_work([&reads](Rank, const device::WorkRequest& request) {
    if (request.opcode == device::Opcode::read) ++reads;
  });
  std::vector<Status> ends(kRanks);
  run_job(spec, [&](Member& member) {
    const Bytes own = pattern(block_bytes, member.rank());
    Bytes all(kRanks * block_bytes);
    auto request = member.communicator().allgather(own, all, {algorithm, true});
    ASSERT_TRUE(request.ok()) << request.status().to_string();
    ends[member.rank()] = request->wait_for(std::chrono::seconds(30));
  });
  return ends;
}

void expect_all_name_the_rank_behind(const std::vector<Status>& ends) {
  for (const Status& end : ends) {
    const std::string& text = end.message();
    EXPECT_EQ(end.code(), Code::peer_failed) << text;
    const std::size_t cause = text.find("packets of ");
    ASSERT_NE(cause, std::string::npos) << text;
    EXPECT_NE(text.find("rank 2", cause), std::string::npos) << text;
    EXPECT_NE(text.find("although shorter ones do: set the MTU", cause), std::string::npos) << text;
  }
}

TEST(PathMtu, LossOfAllChunks_inAnAllgather_namesTheRankBehindTheLink) {
  std::atomic<int> reads = 0;
  expect_all_name_the_rank_behind(
      allgather_over_the_link(Algorithm::multicast, kWholeChunks, reads));
}

TEST(PathMtu, LossOfChunksAndReads_inAnAllgather_namesTheRankBehindTheLink) {
  std::atomic<int> reads = 0;
  expect_all_name_the_rank_behind(
      allgather_over_the_link(Algorithm::multicast, kShortLastChunk, reads));
  EXPECT_GT(reads, 0);
}

TEST(PathMtu, LossOfFrames_inARingAllgather_namesTheRankBehindTheLink) {
  std::atomic<int> reads = 0;
  expect_all_name_the_rank_behind(allgather_over_the_link(Algorithm::ring, kWholeChunks, reads));
  EXPECT_EQ(reads, 0);
}

}  // namespace
}  // namespace tutti::scenario
