// Tests that the trace of a job which loses chunks shows the recovery.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "job.hpp"

namespace tutti::scenario {
namespace {

/// A directory for traces. TUTTI_TRACE names the directory as long as this object exists.
class TraceFolder {
 public:
  TraceFolder() {
    std::string path = (std::filesystem::temp_directory_path() / "tutti-trace-XXXXXX").string();
    path_ = ::mkdtemp(path.data());
    ::setenv("TUTTI_TRACE", path_.c_str(), 1);
  }
  ~TraceFolder() {
    ::unsetenv("TUTTI_TRACE");
    std::filesystem::remove_all(path_);
  }

  /// For each rank, the number of spans and marks of each kind in its trace.
  std::map<int, std::map<std::string, int>> kinds() const {
    std::map<int, std::map<std::string, int>> counted;
    for (const auto& entry : std::filesystem::directory_iterator(path_)) {
      // Skips a file that is still being written.
      if (entry.path().extension() != ".json") continue;
      std::ifstream file(entry.path());
      const nlohmann::json content = nlohmann::json::parse(file);
      const int rank = content.at("otherData").at("tutti_trace").at("rank");
      for (const nlohmann::json& event : content.at("traceEvents"))
        ++counted[rank][event.value("cat", "") + (event.at("ph") == "i" ? " mark" : "")];
    }
    return counted;
  }

 private:
  std::string path_;
};

TEST(Trace, TraceOfAJobWithLoss_showsTheCutoffAndTheFetch) {
  // First epoch of the tested collectives, after the membership barrier and the clock exchange.
  constexpr std::uint32_t kFirstEpoch = 3;
  const TraceFolder folder;
  // Rank 1 loses the tail of the last block, and no later chunk reveals the loss. The cutoff or a
  // neighbour that has finished reveals it, and a READ fetches the tail.
  const Outcome outcome = run_job(
      {.size = 3,
       .faults = "drop receiver chunk psn=15-17 ranks=1 epoch=" + std::to_string(kFirstEpoch),
       .options = small_chunks()},
      [](Member& member) { member.allgather(5 * 1024 + 100, 1); });
  ASSERT_GT(outcome.of("chunks_fetched"), 0u) << outcome.describe();
  auto kinds = folder.kinds();
  ASSERT_EQ(kinds.size(), 3u);
  EXPECT_GT(kinds[1]["fetch"], 0);
  Counters one = outcome.by_rank[1];
  EXPECT_GT(kinds[1]["cutoff mark"], 0);
  EXPECT_EQ(kinds[1]["cutoff mark"],
            static_cast<int>(one["cutoff_silence"] + one["cutoff_neighbour_finished"]));
  for (const int rank : {0, 1, 2}) {
    EXPECT_EQ(kinds[rank]["collect"], 2) << rank;
    EXPECT_EQ(kinds[rank]["multicast"], 1) << rank;
    EXPECT_GT(kinds[rank]["owner"], 0) << rank;
  }
}

TEST(Trace, TraceIsWrittenWhenTheJobFails) {
  const TraceFolder folder;
  std::atomic<bool> called{false};
  run_job({.size = 2, .options = small_chunks()}, [&](Member& member) {
    if (member.rank() == 0) {  // rank 0 aborts once rank 1 has started its Allgather
      called.wait(false);
      member.communicator().abort("as planned");
      return;
    }
    std::vector<std::byte> all(64 * 1024);
    const auto own = std::span<const std::byte>(all).subspan(32 * 1024);
    auto request = member.communicator().allgather(own, all);
    // The engine must begin the call before rank 0 aborts, because a call that fails earlier leaves
    // no span.
    while (request.ok() && request->progress().chunks_total == 0) std::this_thread::yield();
    called = true;
    called.notify_all();
    ASSERT_TRUE(request.ok());
    EXPECT_EQ(request->wait_for(std::chrono::seconds(60)).code(), Code::peer_failed);
    EXPECT_EQ(folder.kinds()[1]["collective"], 1)
        << "the trace must be written before the communicator is destroyed";
  });
}

}  // namespace
}  // namespace tutti::scenario
