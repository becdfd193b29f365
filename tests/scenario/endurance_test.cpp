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
  const Outcome outcome =
      run_job(spec, [](Member& member) { run_small_collectives(member, kCollectives); });
  EXPECT_EQ(outcome.of("collectives_completed"), 3u * (kCollectives + 1)) << outcome.describe();
  EXPECT_EQ(outcome.of("messages_rejected"), 0u);
  return outcome;
}

TEST(Endurance, SmallCollectivesBackToBackComplete) { run(""); }

TEST(Endurance, SmallCollectivesBackToBack_withFaults_complete) {
  expect_every_fault(run(kEveryFault));
}

}  // namespace
}  // namespace tutti::scenario
