// A trace: spans on tracks, written in the Trace Event Format that chrome://tracing and Perfetto
// read.
//
// Spans are kept in memory until the trace is written, so a trace suits only runs of limited
// length. The simulator, real runs and merged traces use this class.
#pragma once

#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <ostream>
#include <ratio>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tutti::observe {

/// A duration, or a time since the start of the trace.
using TraceTime = std::chrono::duration<std::int64_t, std::pico>;

/// A track, which is one row of the viewer: its group ("ranks", "switch ports") and its number in
/// that group.
struct TraceTrack {
  std::uint32_t group = 0;
  std::uint32_t number = 0;

  bool operator==(const TraceTrack&) const = default;
};

/// A named value that the viewer shows with a span: {"bytes", 4096}.
struct TraceArgument {
  std::string_view name;
  std::int64_t value = 0;
};
using TraceArguments = std::vector<TraceArgument>;

class Trace {
 public:
  /// Keeps the first `max_spans` spans; later spans are only counted.
  explicit Trace(std::size_t max_spans = 2'000'000) : max_spans_(max_spans) {}

  /// Names a new group of tracks and returns its number, one more than the highest so far.
  std::uint32_t add_group(std::string_view name);
  /// Names the group of tracks `number`; no other group may have this number.
  void add_group(std::uint32_t number, std::string_view name);
  void name_track(TraceTrack track, std::string_view name);
  /// Adds a span; the spans of one track must nest or not overlap. Readers of the file may filter
  /// by `category`.
  void add(TraceTrack track, std::string_view name, TraceTime begin, TraceTime length,
           std::string_view category = {}, const TraceArguments& arguments = {});
  /// Adds an event without duration.
  void mark(TraceTrack track, std::string_view name, TraceTime at, std::string_view category = {},
            const TraceArguments& arguments = {});
  /// Adds an arrow from the span that is under way on track `from` at time `from_at` to the span
  /// that is under way on track `to` at time `to_at`.
  void connect(TraceTrack from, TraceTime from_at, TraceTrack to, TraceTime to_at);
  /// Adds a property of the whole trace; `json` is its value as JSON text.
  void describe(std::string_view name, std::string json);

  std::size_t spans() const { return spans_.size(); }
  std::uint64_t left_out() const { return left_out_; }
  /// Writes the trace as JSON: {"traceEvents": [...], "otherData": {...}}, with times in
  /// microseconds.
  void write(std::ostream& out) const;

 private:
  using NameIndex = std::uint32_t;  ///< index in names_

  struct Span {
    TraceTrack track;
    NameIndex name = 0;
    NameIndex category = 0;
    bool marks = false;
    std::uint32_t argument_count = 0;
    std::uint64_t first_argument = 0;  ///< index in arguments_
    TraceTime begin;
    TraceTime length;
  };
  struct Argument {
    NameIndex name = 0;
    std::int64_t value = 0;
  };
  struct Named {
    TraceTrack track;
    std::string name;
  };
  struct Arrow {
    TraceTrack from;
    TraceTime from_at;
    TraceTrack to;
    TraceTime to_at;
  };

  NameIndex index_of(std::string_view name);
  void keep(Span span, std::string_view name, std::string_view category,
            const TraceArguments& arguments);
  void write_span(std::ostream& out, const Span& span) const;

  std::size_t max_spans_;
  std::uint64_t left_out_ = 0;
  std::uint32_t next_group_ = 0;
  std::vector<Named> groups_;
  std::vector<Named> tracks_;
  std::vector<std::string> names_;
  std::unordered_map<std::string, NameIndex> name_indices_;
  std::vector<Span> spans_;
  std::vector<Argument> arguments_;
  std::vector<Arrow> arrows_;
  std::vector<std::pair<std::string, std::string>> descriptions_;
};

}  // namespace tutti::observe
