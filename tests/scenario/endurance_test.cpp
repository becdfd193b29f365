// Runs many small collectives back to back on a network with every kind of fault at once.
#include <gtest/gtest.h>

#include <string>

#include "job.hpp"
#include "sanitized.hpp"

namespace tutti::scenario {
namespace {

// Number of collectives; smaller in a build with a sanitizer, because a sanitizer slows each call.
constexpr std::uint32_t kCollectives = test::kSanitized ? 2'000 : 10'000;

Outcome run(const std::string& faults) {
  JobSpec spec{.size = 3, .faults = faults, .options = small_chunks()};
  spec.options.chains = 0;
  spec.options.retain_bytes = CommunicatorOptions{}.retain_bytes;
  const Outcome outcome = run_job(spec, [&](Member& member) {
    for (std::uint32_t i = 0; i < kCollectives; ++i) {
      const std::size_t bytes = i % 7 * 700;
      const bool ok =
          i % 3 == 0 ? member.broadcast(bytes, i % member.size(), i) : member.allgather(bytes, i);
      if (!ok) return;
    }
  });
  EXPECT_EQ(outcome.of("collectives_completed"), 3u * (kCollectives + 1)) << outcome.describe();
  EXPECT_EQ(outcome.of("messages_rejected"), 0u);
  return outcome;
}

TEST(Endurance, SmallCollectivesBackToBackComplete) { run(""); }

TEST(Endurance, SmallCollectivesBackToBack_withFaults_complete) {
  const Outcome outcome =
      run("seed=3; drop receiver chunk rate=0.5%; drop sender chunk rate=0.5%;"
          "duplicate receiver chunk rate=2% by=1ms; reorder receiver chunk rate=2%;"
          "corrupt receiver chunk rate=0.2%; drop sender reliable rate=0.2%");
  EXPECT_GT(outcome.injected.chunks_dropped_at_receiver, 0u);
  EXPECT_GT(outcome.injected.chunks_dropped_at_sender, 0u);
  EXPECT_GT(outcome.injected.chunks_duplicated, 0u);
  EXPECT_GT(outcome.injected.chunks_reordered, 0u);
  EXPECT_GT(outcome.injected.chunks_corrupted, 0u);
  EXPECT_GT(outcome.injected.frames_dropped, 0u);
}

}  // namespace
}  // namespace tutti::scenario
