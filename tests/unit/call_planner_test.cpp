// Tests that a communicator refuses multicast calls with more chunks than PSNs, and an algorithm
// file that is a pipe.
#include "runtime/communicator/call_planner.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>

namespace tutti::runtime {
namespace {

constexpr std::uint32_t kChunk = 64;
constexpr std::uint64_t kPsns = 0xffff'ffff;

/// A buffer of which only the size is used, never the bytes.
std::span<std::byte> buffer_of(std::uint64_t bytes) {
  static std::byte first;
  return {&first, bytes};
}

class MulticastPlans : public testing::Test {
 protected:
  CallPlanner planner_{{.rank = Rank{0}, .size = 2, .chunk_bytes = kChunk, .device = "ip"},
                       collectives::ChoiceTable::defaults()};

  Status plan(CollectiveCall call) {
    call.options.algorithm = Algorithm::multicast;
    return planner_.plan(call).status();
  }
};

TEST_F(MulticastPlans, BroadcastWithMoreChunksThanPsns_isRefused) {
  CollectiveCall call{.collective = Collective::broadcast, .receive = buffer_of(kPsns * kChunk)};
  EXPECT_TRUE(plan(call).ok()) << plan(call).to_string();
  call.receive = buffer_of(kPsns * kChunk + 1);
  const Status status = plan(call);
  EXPECT_EQ(status.code(), Code::invalid_argument);
  EXPECT_NE(status.message().find("274877906881 bytes are 4294967296 chunks of 64 bytes"),
            std::string::npos)
      << status.to_string();
  EXPECT_NE(status.message().find("larger chunk_bytes"), std::string::npos) << status.to_string();
}

TEST_F(MulticastPlans, AllgatherWithMoreChunksThanPsns_isRefused) {
  const std::uint64_t most = kPsns / 2 * kChunk;
  EXPECT_TRUE(plan({.collective = Collective::allgather,
                    .send = buffer_of(most),
                    .receive = buffer_of(2 * most)})
                  .ok());
  EXPECT_EQ(plan({.collective = Collective::allgather,
                  .send = buffer_of(most + 1),
                  .receive = buffer_of(2 * most + 2)})
                .code(),
            Code::invalid_argument);
}

TEST_F(MulticastPlans, AllgathervWithMoreChunksThanPsns_isRefused) {
  const std::array<std::uint64_t, 2> sizes{1, kPsns * kChunk};
  const std::array<std::uint64_t, 2> offsets{0, 1};
  EXPECT_EQ(plan({.collective = Collective::allgatherv,
                  .send = buffer_of(1),
                  .receive = buffer_of(kPsns * kChunk + 1),
                  .sizes_bytes = sizes,
                  .offsets_bytes = offsets})
                .code(),
            Code::invalid_argument);
}

// Opening a pipe that has no writer would wait for ever.
TEST(AlgorithmFile, Pipe_asTheAlgorithmFile_isRefused) {
  const std::string path = testing::TempDir() + "choices-" + std::to_string(::getpid());
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  ::setenv("TUTTI_ALGORITHM_FILE", path.c_str(), 1);
  const auto table = CallPlanner::choices_from_environment();
  ::unsetenv("TUTTI_ALGORITHM_FILE");
  ::unlink(path.c_str());
  ASSERT_FALSE(table);
  EXPECT_EQ(table.status().code(), Code::invalid_argument);
  EXPECT_NE(table.status().message().find("regular file"), std::string::npos)
      << table.status().to_string();
}

}  // namespace
}  // namespace tutti::runtime
