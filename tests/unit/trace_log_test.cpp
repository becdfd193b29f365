// Tests the trace of a rank: the log keeps a limited number of spans, and the export puts
// overlapping spans on different tracks.
#include "observe/trace_log.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "observe/flight_recorder.hpp"
#include "observe/trace.hpp"
#include "observe/trace_export.hpp"

namespace tutti::observe {
namespace {

std::int64_t clock_ns = 0;
Instant hand_clock() { return {clock_ns}; }

TraceSpan span(std::int64_t begin, std::int64_t end, TraceKind kind = TraceKind::send) {
  TraceSpan made;
  made.kind = kind;
  made.name = to_string(kind);
  made.begin = {begin};
  made.end = {end};
  made.peer = Rank{1};
  return made;
}

/// The content that a trace viewer shows: the spans of each track in order, with name and times in
/// microseconds.
using Shown = std::map<std::string, std::vector<std::tuple<double, double, std::string>>>;

Shown show(const TraceLog& log, const TraceClock& clock = {}) {
  Trace trace;
  const TraceLog* const logs[] = {&log};
  export_rank(trace, Rank{3}, "rank 3", logs, clock);
  std::stringstream text;
  trace.write(text);
  const nlohmann::json json = nlohmann::json::parse(text.str());
  std::map<int, std::string> tracks;
  Shown shown;
  for (const nlohmann::json& event : json.at("traceEvents")) {
    EXPECT_EQ(event.at("pid"), 4);
    if (event.at("ph") == "M") {
      if (event.at("name") == "thread_name") tracks[event.at("tid")] = event.at("args").at("name");
      continue;
    }
    const double begin = event.at("ts");
    shown[tracks.at(event.at("tid"))].emplace_back(begin, begin + event.value("dur", 0.0),
                                                   event.at("name"));
  }
  return shown;
}

TEST(TraceLog, FullLog_keepsTheLatestSpans_andCountsTheDroppedOnes) {
  TraceLog log("tasks", 4, hand_clock);
  for (int i = 0; i < 11; ++i) log.add(span(i, i + 1));
  const TraceLog::Content content = log.content();
  EXPECT_EQ(content.dropped, 7u);
  ASSERT_EQ(content.spans.size(), 4u);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(content.spans[i].begin.nanoseconds, 7 + i);
}

TEST(TraceLog, PeersAreNamedByTheirRanksInTheJob) {
  TraceLog log("tasks", 4, hand_clock);
  CommunicatorTrace leaders(log, 0x4001, {Rank{0}, Rank{4}});
  leaders.add(span(0, 1));
  TraceSpan rootless = span(1, 2);
  rootless.peer = kNoRank;
  leaders.add(rootless);
  const auto spans = log.content().spans;
  EXPECT_EQ(spans[0].peer, Rank{4});
  EXPECT_EQ(spans[0].communicator, 0x4001);
  EXPECT_EQ(spans[1].peer, kNoRank);
}

TEST(TraceLog, ConsecutivePollsWithWork_becomeOneSpan) {
  TraceLog log("owner", 8, hand_clock);
  {
    BusyTrace busy(&log, TraceKind::owner, "owner: application thread");
    for (const bool worked : {false, true, true, false, true}) {
      clock_ns += 10;
      busy.polling();
      clock_ns += 5;
      busy.polled(worked);
    }
  }
  const auto spans = log.content().spans;
  ASSERT_EQ(spans.size(), 2u);
  EXPECT_EQ((spans[0].end - spans[0].begin).count(), 35);
  EXPECT_EQ((spans[1].end - spans[1].begin).count(), 5);
}

TEST(TraceExport, OverlappingSpansGetSeparateTracks) {
  TraceLog log("tasks", 16, hand_clock);
  log.add(span(0, 3'000, TraceKind::receive));
  log.add(span(1'000, 2'000, TraceKind::receive));
  log.add(span(2'000, 4'000, TraceKind::receive));
  log.add(span(3'000, 5'000, TraceKind::receive));
  const Shown shown = show(log);
  ASSERT_EQ(shown.size(), 2u);
  EXPECT_EQ(shown.at("receives").size(), 2u);
  EXPECT_EQ(shown.at("receives 2").size(), 2u);
  for (const auto& [track, spans] : shown) {
    EXPECT_LE(std::get<1>(spans[0]), std::get<0>(spans[1])) << track;
    EXPECT_EQ(std::get<2>(spans[0]), "receive from 1");
  }
}

TEST(TraceExport, ExportedTimes_countFromTheOriginOfRankZero) {
  TraceLog log("tasks", 4, hand_clock);
  log.add(span(1'000'000, 1'500'000));
  const Shown shown =
      show(log, {.offset = Nanoseconds(-200'000), .error = {}, .origin = {900'000}});
  EXPECT_EQ(shown.at("sends"), (Shown::mapped_type{{-100.0, 400.0, "send to 1"}}));
}

TEST(FlightRecorder, PhasesOfOverlappingCollectives_stayWithinTheirCollective) {
  TraceLog log("tasks", 32, hand_clock);
  CommunicatorTrace trace(log, 0, {});
  FlightRecorder recorder;
  clock_ns = 500;
  recorder.begin(1, "barrier", "dissemination", kNoRank, 0, {500});
  recorder.trace_to(&trace);
  const auto enter = [&](std::uint32_t epoch, Phase phase) {
    clock_ns += 1'000;
    recorder.enter(epoch, phase, {});
  };
  enter(1, Phase::done);  // no span: this phase began before tracing
  for (const std::uint32_t epoch : {2u, 3u}) {
    recorder.begin(epoch, "allgather", "multicast", kNoRank, 64, {clock_ns});
    enter(epoch, Phase::ready);
    enter(epoch, Phase::data);
    enter(epoch, Phase::handshake);
    if (epoch == 3) enter(2, Phase::done);
  }
  enter(3, Phase::failed);
  const Shown shown = show(log);
  ASSERT_EQ(shown.size(), 2u);
  for (const auto& [track, spans] : shown) {
    ASSERT_EQ(spans.size(), 4u) << track;
    EXPECT_EQ(std::get<2>(spans[0]), "allgather (multicast)");
    double before = 0;
    const char* const names[] = {"", "ready barrier", "data", "handshake"};
    for (int i = 1; i < 4; ++i) {
      EXPECT_EQ(std::get<2>(spans[i]), names[i]);
      EXPECT_GE(std::get<0>(spans[i]), before);
      before = std::get<1>(spans[i]);
    }
    EXPECT_DOUBLE_EQ(before, std::get<1>(spans[0]))
        << "the last phase must end with the collective";
  }
}

}  // namespace
}  // namespace tutti::observe
