#include "sim/fabric/background.hpp"

#include <gtest/gtest.h>

#include "fabric_recorder.hpp"

namespace tutti::sim {
namespace {

struct Noise {
  std::uint64_t digest;
  std::uint64_t packets;
  double load;  ///< load of the sending hosts' links, as a share of the link rate
};

Noise run(const BackgroundSettings& settings, FlowControl flow_control) {
  const Topology topology = std::move(Topology::fat_tree(8, 2).value());
  FabricSettings fabric_settings;
  fabric_settings.flow_control = flow_control;
  Bench bench(topology, fabric_settings);
  BackgroundTraffic background(bench.queue, bench.fabric, settings);
  background.start({});
  const Picoseconds end = milliseconds(5);
  for (Event event; bench.queue.pop(event);) {
    if (event.time >= end) background.stop();
    if (kind_of(event) == EventKind::background) {
      background.handle(event);
    } else {
      bench.fabric.handle(event);
    }
  }
  EXPECT_EQ(bench.recorder.heard(), 0u) << "the sink must not receive background packets";
  EXPECT_TRUE(bench.recorder.drops.empty());
  const FabricCounters& counters = bench.counters();
  EXPECT_EQ(counters.in_flight, 0u);
  EXPECT_EQ(counters.injected, background.packets());
  EXPECT_EQ(counters.delivered + counters.dropped, counters.injected);
  const double sent = static_cast<double>(bench.fabric.class_total(LinkClass::host_up).wire_bytes);
  const double capacity = to_seconds(end) * 200e9 / 8 * settings.streams;
  return {bench.queue.digest(), background.packets(), sent / capacity};
}

TEST(Background, LinksHaveTheRequestedLoad) {
  for (const double load : {0.05, 0.3, 0.6}) {
    const Noise noise = run({.seed = 3, .streams = 16, .load = load}, FlowControl::lossy);
    EXPECT_NEAR(noise.load, load, load * 0.15);
  }
}

TEST(Background, BackgroundTraffic_dependsOnlyOnTheSeed) {
  const BackgroundSettings settings{.seed = 3, .streams = 20, .load = 0.4};
  BackgroundSettings other = settings;
  other.seed = 4;
  for (const FlowControl mode : {FlowControl::lossless, FlowControl::lossy}) {
    EXPECT_EQ(run(settings, mode).digest, run(settings, mode).digest);
    EXPECT_NE(run(settings, mode).digest, run(other, mode).digest);
  }
}

}  // namespace
}  // namespace tutti::sim
