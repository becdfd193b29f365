// Tests the NIC model: after calibration it must reproduce table I of [Khalilov24] and predict the
// other results of that paper.
#include "studies/smartnic/nic_model.hpp"

#include <gtest/gtest.h>

#include "sim/fabric/event_queue.hpp"

namespace tutti::sim {
namespace {

constexpr double kGiB = 1024.0 * 1024 * 1024;
constexpr std::uint64_t kChunk = 4096;
constexpr double kLink = 200e9;

const DatapathModel& uc() {
  static const DatapathModel model({}, kUnreliableConnected);
  return model;
}
const DatapathModel& ud() {
  static const DatapathModel model({}, kUnreliableDatagram);
  return model;
}

TEST(NicModel, CalibratedThroughputIsWithinTwoPercentOfTableOne) {
  constexpr double kBuffer = 8 << 20;
  const auto as_printed = [](const DatapathModel& model) {
    const double seconds = kBuffer / model.bytes_per_second(1, kChunk) + to_seconds(kOperationCost);
    return kBuffer / seconds / 1e9;
  };
  EXPECT_NEAR(as_printed(uc()), 11.9, 11.9 * 0.02);
  EXPECT_NEAR(as_printed(ud()), 5.2, 5.2 * 0.02);
  // Instructions divided by cycles must equal the instructions per cycle that table I of
  // [Khalilov24] prints.
  EXPECT_NEAR(kUnreliableConnected.instructions / kUnreliableConnected.printed_cycles, 0.11, 0.005);
  EXPECT_NEAR(kUnreliableDatagram.instructions / kUnreliableDatagram.printed_cycles, 0.10, 0.005);
  EXPECT_EQ(uc().time_per_completion(1).count / 1000, 332);
}

TEST(NicModel, CycleCountsPrintedInThePaper_doNotYieldTheThroughputOfTableOne) {
  CompletionWork printed = kUnreliableConnected;
  printed.cycles = printed.printed_cycles;
  const double connected = DatapathModel({}, printed).bytes_per_second(1, kChunk);
  EXPECT_NEAR(connected / kGiB, 11.48, 0.01);
  EXPECT_LT(connected, 11.9 * kGiB)
      << "the printed cycles allow less than 11.9 GiB/s, so the table means GB/s";
  EXPECT_GT(connected, 11.9e9);
  printed = kUnreliableDatagram;
  printed.cycles = printed.printed_cycles;
  EXPECT_NEAR(DatapathModel({}, printed).bytes_per_second(1, kChunk) / kGiB, 6.33, 0.01);
}

TEST(NicModel, PredictedThreadsForLinkRate_areFourWithUcAndEightToSixteenWithUd) {
  EXPECT_EQ(uc().threads_for(kLink, kChunk), 4u);
  // Two threads do not reach the link rate, even if each runs as fast as a thread that has its core
  // to itself.
  EXPECT_LT(2 * uc().bytes_per_second(1, kChunk) * 8, kLink);
  const std::uint32_t threads = ud().threads_for(kLink, kChunk);
  EXPECT_GE(threads, 8u);
  EXPECT_LE(threads, 16u);
}

TEST(NicModel, PredictsThat128ThreadsReachTheChunkRateOf1600GbitPerSecond) {
  const double chunks_per_second = 1.6e12 / 8 / kChunk;
  EXPECT_GT(uc().completions_per_second(128), chunks_per_second);
  EXPECT_GT(ud().completions_per_second(128), chunks_per_second);
  EXPECT_LT(ud().completions_per_second(16), chunks_per_second)
      << "one core alone must not reach the rate";
}

TEST(NicModel, OneNicCoreOfSixteenThreads_isFasterThanAHostCore) {
  const HostCore host;
  EXPECT_GE(host.bits_per_second(kChunk), kLink / 2);
  EXPECT_LE(host.bits_per_second(kChunk), kLink * 2 / 3);
  const double offloaded = std::min(ud().bytes_per_second(16, kChunk) * 8, kLink);
  EXPECT_GE(offloaded / host.bits_per_second(kChunk), 1.25);
}

TEST(NicModel, PredictsThatLongerMessagesNeedFewerThreads) {
  std::uint32_t before = 1024;
  for (std::uint64_t bytes = 512; bytes <= 65536; bytes *= 2) {
    const std::uint32_t threads = uc().threads_for(kLink, bytes);
    EXPECT_GT(threads, 0u) << bytes;
    EXPECT_LE(threads, before) << bytes;
    before = threads;
  }
  EXPECT_EQ(before, 1u);
  EXPECT_EQ(uc().threads_for(kLink, 16384), 1u);
  EXPECT_GT(uc().threads_for(kLink, 1024), 4u);
}

TEST(NicModel, RateRisesWithThreadsUntilTheCoreIsFull) {
  for (const DatapathModel* model : {&uc(), &ud()}) {
    double before = 0;
    for (std::uint32_t threads = 1; threads <= 256; ++threads) {
      const double rate = model->completions_per_second(threads);
      EXPECT_GT(rate, before) << threads;
      EXPECT_LE(rate, model->completions_per_second(1) * threads * 1.0000001);
      before = rate;
    }
    EXPECT_LT(model->completions_per_second(256), 200e6);
    EXPECT_EQ(model->completions_per_second(300), model->completions_per_second(256));
  }
  // A core cannot issue more than one instruction per cycle.
  EXPECT_LT(uc().completions_per_second(16), 1.8e9 / 66);
  EXPECT_LT(ud().completions_per_second(16), 1.8e9 / 113);
}

TEST(NicModel, Worker_handlesOneCompletionAfterTheOther) {
  WorkerPool pool(2);
  EXPECT_EQ(pool.handle(0, nanoseconds(100), nanoseconds(50)), nanoseconds(150));
  EXPECT_EQ(pool.handle(0, nanoseconds(110), nanoseconds(50)), nanoseconds(200));
  EXPECT_EQ(pool.handle(1, nanoseconds(110), nanoseconds(50)), nanoseconds(160));
  EXPECT_EQ(pool.handle(0, nanoseconds(500), nanoseconds(50)), nanoseconds(550));
  EXPECT_EQ(pool.free_at(1), nanoseconds(160));
}

TEST(NicModel, Bus_addsItsLatency_andLimitsTheRate) {
  BusSettings settings;
  settings.bits_per_second = 80'000'000'000;
  NicModel nic(settings);
  // The fetch of a payload crosses the bus three times (doorbell, read request, answer), with one
  // latency each; then every byte takes 100 ps.
  EXPECT_EQ(nic.fetched({}, 1000), 3 * settings.latency + nanoseconds(100));
  EXPECT_EQ(nic.fetched({}, 1000), 3 * settings.latency + nanoseconds(200));
  EXPECT_EQ(nic.delivered({}, 1000), settings.latency + picoseconds(106'400));
  EXPECT_EQ(nic.delivered({}, 1000, false), settings.latency + picoseconds(206'400));
  settings.inline_descriptor = false;
  NicModel far(settings);
  EXPECT_EQ(far.fetched({}, 1000), 5 * settings.latency + picoseconds(106'400));
  settings.completions_stay = true;
  NicModel near(settings);
  EXPECT_EQ(near.delivered({}, 1000), settings.local_latency);
}

/// Sends a stream of chunks at link rate to the workers in turn. The backlog must stay bounded if
/// the model predicts that the threads keep up, and must grow otherwise.
TEST(NicModel, SimulatedWorkersKeepUpWithTheLink_exactlyIfTheModelPredictsIt) {
  for (const DatapathModel* model : {&uc(), &ud()}) {
    const std::uint32_t enough = model->threads_for(kLink, kChunk);
    for (const std::uint32_t threads : {enough / 2, enough}) {
      WorkerPool pool(threads);
      const Picoseconds each = model->time_per_completion(threads);
      const Picoseconds gap = WireSpeed(200'000'000'000).time_of(kChunk);
      Picoseconds worst{};
      for (std::uint32_t i = 0; i < 100'000; ++i) {
        const Picoseconds seen = gap * i;
        worst = std::max(worst, pool.handle(i % threads, seen, each) - seen);
      }
      const bool keeps_up = worst <= each + gap;
      EXPECT_EQ(keeps_up, threads == enough) << threads;
    }
  }
}

}  // namespace
}  // namespace tutti::sim
