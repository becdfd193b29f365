// What happened when, by track, in the format that chrome://tracing and Perfetto read.
//
// Spans are kept in memory until they are written: a trace is for runs that one wants to look at.
// The simulator's traces, those of real runs and merged ones all come from here.
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

/// A duration, or an instant counted from wherever the trace begins.
using TraceTime = std::chrono::duration<std::int64_t, std::pico>;

/// A row of the viewer: its group ("ranks", "switch ports") and its place in it.
struct TraceTrack {
  std::uint32_t group = 0;
  std::uint32_t number = 0;

  bool operator==(const TraceTrack&) const = default;
};

/// What the viewer shows beside a span: {"bytes", 4096}.
struct TraceArgument {
  std::string_view name;
  std::int64_t value = 0;
};
using TraceArguments = std::vector<TraceArgument>;

class Trace {
 public:
  /// Keeps at most so many spans; what comes later is counted only.
  explicit Trace(std::size_t most_spans = 2'000'000) : most_spans_(most_spans) {}

  /// Names a group of tracks; returns its number: one more than the highest so far.
  std::uint32_t add_group(std::string_view name);
  /// The same with a number of the caller's, which no other group has.
  void add_group(std::uint32_t number, std::string_view name);
  void name_track(TraceTrack track, std::string_view name);
  /// What was under way on a track. Spans of one track nest or do not overlap. `category` sorts
  /// spans for whoever reads the file.
  void add(TraceTrack track, std::string_view name, TraceTime begin, TraceTime length,
           std::string_view category = {}, const TraceArguments& arguments = {});
  /// What happened in no time.
  void mark(TraceTrack track, std::string_view name, TraceTime at, std::string_view category = {},
            const TraceArguments& arguments = {});
  /// An arrow from a span that is under way on one track to one on another.
  void connect(TraceTrack from, TraceTime from_at, TraceTrack to, TraceTime to_at);
  /// Says something about the trace as a whole; `json` is a value as JSON writes it.
  void describe(std::string_view name, std::string json);

  std::size_t spans() const { return spans_.size(); }
  std::uint64_t left_out() const { return left_out_; }
  /// Writes it as JSON: {"traceEvents": [...], "otherData": {...}}, times in microseconds.
  void write(std::ostream& out) const;

 private:
  using NameIndex = std::uint32_t;  ///< in names_

  struct Span {
    TraceTrack track;
    NameIndex name = 0;
    NameIndex category = 0;
    bool marks = false;
    std::uint32_t argument_count = 0;
    std::uint64_t first_argument = 0;  ///< in arguments_
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

  std::size_t most_spans_;
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
