// Tests that a trace shows every packet at every port, and every rank's collectives with their
// phases.
#include "observe/trace.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "sim/simulation/experiment.hpp"
#include "studies/traffic/traffic_experiment.hpp"

namespace tutti::simulation {
namespace {

struct ShownSpan {
  std::string name;
  double begin = 0;
  double end = 0;
};

/// The spans that a viewer shows, in order, indexed by group and track.
using Shown = std::map<std::string, std::map<std::string, std::vector<ShownSpan>>>;

Shown show(const observe::Trace& trace) {
  std::stringstream text;
  trace.write(text);
  const nlohmann::json json = nlohmann::json::parse(text.str());
  std::map<int, std::string> groups;
  std::map<std::pair<int, int>, std::string> tracks;
  Shown shown;
  for (const nlohmann::json& event : json.at("traceEvents")) {
    const int group = event.at("pid");
    if (event.at("ph") == "M" && event.at("name") == "process_name") {
      groups[group] = event.at("args").at("name");
    } else if (event.at("ph") == "M") {
      tracks[{group, event.at("tid")}] = event.at("args").at("name");
    } else {
      const double begin = event.at("ts");
      const double length = event.at("dur");
      shown[groups.at(group)][tracks.at({group, event.at("tid")})].push_back(
          {event.at("name"), begin, begin + length});
    }
  }
  for (auto& [group, of_group] : shown) {
    for (auto& [track, spans] : of_group) {
      std::stable_sort(spans.begin(), spans.end(),
                       [](const auto& a, const auto& b) { return a.begin < b.begin; });
    }
  }
  return shown;
}

TEST(Trace, TraceShowsRanksWithTheirPhasesAndPortsWithTheirPackets) {
  observe::Trace trace;
  ExperimentSpec spec;
  spec.ranks = 6;
  spec.collective.bytes = 20'000;
  spec.iterations = 2;
  spec.place = default_place(6);
  spec.trace = &trace;
  const auto report = run_experiment(spec);
  ASSERT_TRUE(report) << report.status().to_string();
  Shown shown = show(trace);
  ASSERT_EQ(shown["ranks"].size(), 6u);
  for (const auto& [rank, spans] : shown["ranks"]) {
    double collectives = 0;
    double phases = 0;
    for (const ShownSpan& span : spans) {
      (span.name == "allgather" ? collectives : phases) += span.end - span.begin;
    }
    EXPECT_GT(collectives, 0) << rank;
    EXPECT_NEAR(phases, collectives, collectives * 1e-6) << rank;
  }
  std::size_t packets = 0;
  for (const char* group : {"host ports", "switch ports"}) {
    for (const auto& [port, spans] : shown[group]) {
      packets += spans.size();
      for (std::size_t i = 1; i < spans.size(); ++i) {
        EXPECT_GE(spans[i].begin, spans[i - 1].end - 1e-6) << port << " sends two packets at once";
      }
    }
  }
  EXPECT_GT(packets, 6u * 6 * 5);
  EXPECT_EQ(shown["host ports"].size(), 6u);
  EXPECT_EQ(shown["switch ports"].size(), 6u);
}

TEST(Trace, TracingChangesNoResult) {
  ExperimentSpec spec;
  spec.ranks = 40;
  spec.place = default_place(40);
  const auto without = run_experiment(spec);
  observe::Trace trace;
  spec.trace = &trace;
  const auto with = run_experiment(spec);
  ASSERT_TRUE(without && with);
  EXPECT_EQ(with->digest, without->digest);
  EXPECT_EQ(with->times[0].count(), without->times[0].count());
}

TEST(Trace, TraceOfAnInNetworkReduceScatter_showsTheContributions) {
  observe::Trace trace;
  TrafficSpec spec;
  spec.algorithm = "reduce_scatter_in_network";
  spec.bytes = 4096;
  spec.place = default_place(8);
  spec.trace = &trace;
  ASSERT_TRUE(run_traffic(spec));
  Shown shown = show(trace);
  EXPECT_EQ(shown["host ports"].size(), 8u);
  for (const auto& [port, spans] : shown["host ports"]) {
    EXPECT_EQ(spans.size(), 7u) << port;
    EXPECT_EQ(spans[0].name, "contribution");
  }
}

TEST(Trace, TraceAtItsSpanLimit_countsTheSpansLeftOut) {
  observe::Trace trace(3);
  const observe::TraceTrack track{trace.add_group("a \"quoted\" group"), 0};
  trace.name_track(track, "t");
  for (int i = 0; i < 5; ++i) trace.add(track, "x", Nanoseconds(i), Nanoseconds(1));
  EXPECT_EQ(trace.spans(), 3u);
  EXPECT_EQ(trace.left_out(), 2u);
  EXPECT_EQ(show(trace)["a \"quoted\" group"]["t"].size(), 3u);
}

TEST(Background, BackgroundTraffic_slowsACollective_andEndsWithIt) {
  ExperimentSpec spec;
  spec.ranks = 60;
  spec.collective.bytes = 256 << 10;
  spec.place = default_place(60);
  const auto alone = run_experiment(spec);
  spec.background = {.streams = 30, .load = 0.5};
  const auto beside = run_experiment(spec);
  const auto again = run_experiment(spec);
  ASSERT_TRUE(alone && beside && again) << beside.status().to_string();
  EXPECT_GT(beside->times[0].count(), alone->times[0].count());
  EXPECT_EQ(beside->digest, again->digest);
  EXPECT_EQ(beside->fabric.in_flight, 0u);
}

TEST(Background, LostBackgroundPackets_areCountedOnTheirLinks) {
  ExperimentSpec spec;
  spec.ranks = 32;
  spec.place = default_place(32);
  spec.background = {.streams = 16, .load = 0.5};
  spec.loss_ppm = 1'000;
  // The run compares the packets of every link, and succeeds only if the losses explain each
  // difference.
  for (const bool lossless : {true, false}) {
    spec.lossless = lossless;
    const auto done = run_experiment(spec);
    ASSERT_TRUE(done) << done.status().to_string();
    EXPECT_EQ(done->fabric.in_flight, 0u) << "the links are compared only if this is 0";
    EXPECT_GT(done->fabric.dropped, 50u);
  }
}

}  // namespace
}  // namespace tutti::simulation
