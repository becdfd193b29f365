// What happened when, by track, in the format that chrome://tracing and Perfetto read.
//
// Spans are kept in memory until they are written: a trace is for runs that one wants to look at.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "sim/fabric.hpp"
#include "sim/time.hpp"
#include "sim/topology.hpp"

namespace tutti::sim {

/// A row of the viewer: its group ("ranks", "switch ports") and its place in it.
struct TraceTrack {
  std::uint32_t group = 0;
  std::uint32_t number = 0;
};

class Trace {
 public:
  /// Keeps at most so many spans; what comes later is counted only.
  explicit Trace(std::size_t most_spans = 2'000'000) : most_spans_(most_spans) {}

  /// Names a group of tracks; returns its number.
  std::uint32_t add_group(std::string name);
  void name_track(TraceTrack track, std::string name);
  /// What was under way on a track. Spans of one track nest or do not overlap.
  void add(TraceTrack track, std::string_view name, Picoseconds begin, Picoseconds length);

  std::size_t spans() const { return spans_.size(); }
  std::uint64_t left_out() const { return left_out_; }
  /// Writes it as JSON: {"traceEvents": [...]}, times in microseconds.
  void write(std::ostream& out) const;

 private:
  struct Span {
    TraceTrack track;
    std::uint32_t name = 0;  ///< in names_
    Picoseconds begin;
    Picoseconds length;
  };
  struct TrackName {
    TraceTrack track;
    std::string name;
  };
  std::uint32_t name_of(std::string_view name);

  std::size_t most_spans_;
  std::uint64_t left_out_ = 0;
  std::vector<std::string> groups_;
  std::vector<TrackName> track_names_;
  std::vector<std::string> names_;
  std::vector<Span> spans_;
};

/// Puts every port of a fabric into a trace: hosts' ports and switch ports, a track each.
class PortTrace final : public PortObserver {
 public:
  /// Both outlive it.
  PortTrace(Trace& trace, const Topology& topology);
  void sent(LinkId link, Picoseconds begin, Picoseconds each, std::uint32_t count,
            const Packet& packet) override;

 private:
  Trace& trace_;
  const Topology& topology_;
  std::uint32_t host_ports_;
  std::uint32_t switch_ports_;
  std::vector<bool> named_;  ///< by link
};

}  // namespace tutti::sim
