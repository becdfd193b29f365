#include "sim/trace.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace tutti::sim {
namespace {

/// Names come from the program, not from outside: quotes are all that could break them.
std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

std::string microseconds(Picoseconds time) {
  return fmt::format("{}.{:06}", time.count / 1'000'000, time.count % 1'000'000);
}

std::string name_of_port(const Topology& topology, LinkId link) {
  const Link& wire = topology.link(link);
  const char* from = wire.link_class == LinkClass::host_up ? "host" : "switch";
  const char* to = wire.link_class == LinkClass::host_down ? "host" : "switch";
  return fmt::format("{} {} to {} {}", from, wire.from, to, wire.to);
}

}  // namespace

std::uint32_t Trace::add_group(std::string name) {
  groups_.push_back(std::move(name));
  return static_cast<std::uint32_t>(groups_.size() - 1);
}

void Trace::name_track(TraceTrack track, std::string name) {
  track_names_.push_back({track, std::move(name)});
}

std::uint32_t Trace::name_of(std::string_view name) {
  const auto found = std::find(names_.begin(), names_.end(), name);
  if (found != names_.end()) return static_cast<std::uint32_t>(found - names_.begin());
  names_.emplace_back(name);
  return static_cast<std::uint32_t>(names_.size() - 1);
}

void Trace::add(TraceTrack track, std::string_view name, Picoseconds begin, Picoseconds length) {
  if (spans_.size() == most_spans_) {
    ++left_out_;
    return;
  }
  spans_.push_back({track, name_of(name), begin, length});
}

void Trace::write(std::ostream& out) const {
  out << "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"spans_left_out\":" << left_out_
      << "},\"traceEvents\":[";
  const char* separator = "\n";
  for (std::size_t group = 0; group < groups_.size(); ++group) {
    out << separator
        << fmt::format(R"({{"ph":"M","name":"process_name","pid":{},"args":{{"name":{}}}}})",
                       group + 1, quoted(groups_[group]));
    separator = ",\n";
  }
  for (const TrackName& one : track_names_) {
    out << separator
        << fmt::format(
               R"({{"ph":"M","name":"thread_name","pid":{},"tid":{},"args":{{"name":{}}}}})",
               one.track.group + 1, one.track.number, quoted(one.name));
    separator = ",\n";
  }
  for (const Span& span : spans_) {
    out << separator
        << fmt::format(R"({{"ph":"X","name":{},"pid":{},"tid":{},"ts":{},"dur":{}}})",
                       quoted(names_[span.name]), span.track.group + 1, span.track.number,
                       microseconds(span.begin), microseconds(span.length));
    separator = ",\n";
  }
  out << "\n]}\n";
}

PortTrace::PortTrace(Trace& trace, const Topology& topology)
    : trace_(trace),
      topology_(topology),
      host_ports_(trace.add_group("host ports")),
      switch_ports_(trace.add_group("switch ports")),
      named_(topology.links()) {}

void PortTrace::sent(LinkId link, Picoseconds begin, Picoseconds each, std::uint32_t count,
                     const Packet& packet) {
  const bool of_host = topology_.link(link).link_class == LinkClass::host_up;
  const TraceTrack track{of_host ? host_ports_ : switch_ports_, index(link)};
  if (!named_[index(link)]) {
    named_[index(link)] = true;
    trace_.name_track(track, name_of_port(topology_, link));
  }
  const char* name = "unicast";
  if (packet.background) name = "background";
  if (packet.multicast) name = "multicast";
  if (packet.reduced) name = "contribution";
  trace_.add(track, name, begin, each * count);
}

}  // namespace tutti::sim
