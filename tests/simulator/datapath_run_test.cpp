// Tests the program by which a simulated network interface receives chunks. The program must place
// the right bytes and reach the throughput of the paper and of the analytic model.
#include "studies/smartnic/datapath_run.hpp"

#include <gtest/gtest.h>

namespace tutti::simulation {
namespace {

DatapathReport run(const DatapathSpec& spec) {
  const auto report = run_datapath(spec);
  EXPECT_TRUE(report) << report.status().to_string();
  return report ? *report : DatapathReport{};
}

TEST(DatapathRun, Run_withAndWithoutStaging_placesEveryByte_andMarksEveryChunk) {
  for (const bool staging : {false, true}) {
    for (const std::uint32_t threads : {1u, 3u, 16u, 40u, 256u}) {
      // The sizes have no common factor, so the last chunk is shorter than the others.
      const DatapathReport report = run(
          {.staging = staging, .threads = threads, .chunk_bytes = 1000, .buffer_bytes = 777'777});
      EXPECT_EQ(report.wrong_bytes, 0u);
      EXPECT_EQ(report.chunks_missing, 0u);
      EXPECT_EQ(report.completions, 778u);
    }
  }
}

TEST(DatapathRun, StagingNeverExceedsItsSlots) {
  const DatapathReport report = run({.staging = true, .threads = 2, .window_chunks = 16});
  // The link delivers faster than two threads receive. Every staging slot therefore holds a chunk,
  // or is posted for a chunk that is still on the wire.
  EXPECT_LE(report.most_staged, 16u);
  EXPECT_GE(report.most_staged, 14u);
  EXPECT_EQ(report.wrong_bytes, 0u);
  EXPECT_EQ(run({.staging = false, .threads = 2}).most_staged, 0u);
}

TEST(DatapathRun, PublishedThroughputsAreMatchedWithinTwoPercent) {
  EXPECT_NEAR(run({.threads = 1}).bytes_per_second / 1e9, 11.9, 11.9 * 0.02);
  EXPECT_NEAR(run({.staging = true, .threads = 1}).bytes_per_second / 1e9, 5.2, 5.2 * 0.02);
}

TEST(DatapathRun, ThroughputForEachNumberOfThreads_matchesTheAnalyticModel) {
  for (const bool staging : {false, true}) {
    const sim::DatapathModel model({}, work_of({.staging = staging}));
    for (const std::uint32_t threads : {2u, 8u, 16u, 64u}) {
      // The link is never the limit, and so many chunks are sent that the start and the end of the
      // run are negligible.
      const DatapathReport report = run({.staging = staging,
                                         .threads = threads,
                                         .chunk_bytes = 64,
                                         .buffer_bytes = std::uint64_t{64} * 2000 * threads,
                                         .link_bits_per_second = 8'000'000'000'000,
                                         .operation_cost = {}});
      const double predicted = model.completions_per_second(threads);
      // The model assumes exponential service times, which make threads wait longer. The model may
      // therefore predict a lower throughput than the program reaches.
      EXPECT_GE(report.completions_per_second, predicted * 0.99) << threads;
      EXPECT_LE(report.completions_per_second, predicted * 1.12) << threads;
      EXPECT_GE(report.cycles_per_completion, work_of({.staging = staging}).cycles * 0.98);
    }
  }
}

TEST(DatapathRun, LongerMessagesNeedFewerThreads) {
  std::uint32_t before = 512;
  for (const std::uint32_t chunk : {1024u, 4096u, 16'384u, 65'536u}) {
    const auto threads = threads_for_link({.chunk_bytes = chunk}, 0.97);
    ASSERT_TRUE(threads);
    EXPECT_GT(*threads, 0u);
    EXPECT_LE(*threads, before) << chunk;
    before = *threads;
  }
  EXPECT_EQ(before, 1u);
}

TEST(DatapathRun, SeedDeterminesTheRun) {
  const DatapathSpec spec{.staging = true, .threads = 5, .buffer_bytes = 1u << 20};
  EXPECT_EQ(run(spec).digest, run(spec).digest);
  DatapathSpec other = spec;
  other.seed = 2;
  EXPECT_NE(run(spec).digest, run(other).digest);
}

TEST(DatapathRun, ImpossibleSettingsAreRefused) {
  const auto refusal = [](const DatapathSpec& spec) {
    const auto report = run_datapath(spec);
    return report ? std::string() : report.status().message();
  };
  EXPECT_NE(refusal({.threads = 257}).find("1 to 256"), std::string::npos);
  EXPECT_NE(refusal({.threads = 0}).find("1 to 256"), std::string::npos);
  EXPECT_NE(refusal({.threads = 8, .buffer_bytes = 4096 * 7}).find("at least one chunk"),
            std::string::npos);
  EXPECT_NE(refusal({.staging = true, .chunk_bytes = 8192}).find("does not fit a packet"),
            std::string::npos);
}

}  // namespace
}  // namespace tutti::simulation
