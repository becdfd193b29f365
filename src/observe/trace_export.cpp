#include "observe/trace_export.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <vector>

#include <fmt/format.h>

namespace tutti::observe {
namespace {

bool belongs_to_collective(TraceKind kind) {
  return kind == TraceKind::phase || kind == TraceKind::cutoff;
}

bool of_thread(TraceKind kind) {
  return kind == TraceKind::owner || kind == TraceKind::receive_worker;
}

std::string lane_of(const TraceSpan& span) {
  std::string lane;
  switch (span.kind) {
    case TraceKind::collective:
    case TraceKind::phase:
    case TraceKind::cutoff:
      lane = "collectives";
      break;
    case TraceKind::multicast:
      lane = "multicasts";
      break;
    case TraceKind::fetch:
      lane = "fetches";
      break;
    case TraceKind::owner:
    case TraceKind::receive_worker:
      return span.detail;
    default:
      lane = std::string(to_string(span.kind)) + "s";
  }
  return span.communicator == 0 ? lane : fmt::format("communicator {} {}", span.communicator, lane);
}

std::string label_of(const TraceSpan& span) {
  std::string label = span.name;
  const bool to_peer = span.kind == TraceKind::send;
  const bool from_peer = span.kind == TraceKind::receive || span.kind == TraceKind::collect ||
                         span.kind == TraceKind::fetch;
  if (span.peer != kNoRank && (to_peer || from_peer))
    label += fmt::format(" {} {}", to_peer ? "to" : "from", index(span.peer));
  if (span.detail[0] != '\0' && !of_thread(span.kind)) label += fmt::format(" ({})", span.detail);
  return label;
}

TraceArguments arguments_of(const TraceSpan& span) {
  if (of_thread(span.kind)) return {};
  TraceArguments arguments{{"communicator", span.communicator}, {"sequence", span.epoch}};
  if (belongs_to_collective(span.kind)) return arguments;
  arguments.push_back({"bytes", static_cast<std::int64_t>(span.bytes)});
  const bool rooted = span.kind == TraceKind::collective;
  if (span.peer != kNoRank) arguments.push_back({rooted ? "root" : "peer", index(span.peer)});
  if (!rooted && span.kind != TraceKind::compute) arguments.push_back({"slot", span.slot});
  return arguments;
}

/// Distributes the spans of one lane, such as "sends", over rows, so that the spans of a row do not
/// overlap.
class Rows {
 public:
  std::size_t place(const TraceSpan& span) {
    std::size_t row = 0;
    while (row < ends_.size() && ends_[row] > span.begin) ++row;
    if (row == ends_.size()) ends_.emplace_back();
    ends_[row] = span.end;
    return row;
  }

 private:
  std::vector<Instant> ends_;
};

class RankExport {
 public:
  RankExport(Trace& trace, Rank rank, const TraceClock& clock)
      : trace_(trace), rank_(rank), clock_(clock) {}

  void add(std::vector<TraceSpan> spans) {
    // Sorts outer spans first: a collective before its phases.
    std::stable_sort(spans.begin(), spans.end(), [](const TraceSpan& a, const TraceSpan& b) {
      return std::tuple(a.begin, b.end, a.kind) < std::tuple(b.begin, a.end, b.kind);
    });
    for (const TraceSpan& span : spans) put(span, row_of(span));
  }

 private:
  std::size_t row_of(const TraceSpan& span) {
    if (of_thread(span.kind)) return 0;
    const std::pair collective(span.communicator, span.epoch);
    if (belongs_to_collective(span.kind)) {
      const auto found = collectives_.find(collective);
      if (found != collectives_.end()) return found->second;
    }
    const std::size_t row = lanes_[lane_of(span)].place(span);
    if (span.kind == TraceKind::collective) collectives_[collective] = row;
    return row;
  }

  void put(const TraceSpan& span, std::size_t row) {
    const std::string lane = lane_of(span);
    const TraceTrack track = track_of(row == 0 ? lane : fmt::format("{} {}", lane, row + 1));
    const TraceTime begin = clock_.at(span.begin);
    if (span.kind == TraceKind::cutoff) {
      trace_.mark(track, label_of(span), begin, to_string(span.kind), arguments_of(span));
    } else {
      trace_.add(track, label_of(span), begin, span.end - span.begin, to_string(span.kind),
                 arguments_of(span));
    }
  }

  TraceTrack track_of(const std::string& name) {
    const auto [found, fresh] =
        tracks_.try_emplace(name, static_cast<std::uint32_t>(tracks_.size()));
    const TraceTrack track{index(rank_), found->second};
    if (fresh) trace_.name_track(track, name);
    return track;
  }

  Trace& trace_;
  Rank rank_;
  TraceClock clock_;
  std::map<std::string, Rows> lanes_;
  /// Row of each collective, by communicator and epoch.
  std::map<std::pair<std::uint16_t, std::uint32_t>, std::size_t> collectives_;
  std::map<std::string, std::uint32_t> tracks_;
};

}  // namespace

void export_rank(Trace& trace, Rank rank, const std::string& name,
                 std::span<const TraceLog* const> logs, const TraceClock& clock) {
  trace.add_group(index(rank), name);
  RankExport rows(trace, rank, clock);
  for (const TraceLog* log : logs) rows.add(log->content().spans);
}

}  // namespace tutti::observe
