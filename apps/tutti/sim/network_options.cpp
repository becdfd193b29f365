#include "sim/network_options.hpp"

#include <fmt/format.h>
#include <time.h>

#include <CLI/CLI.hpp>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.hpp"
#include "lab/options.hpp"
#include "output_file.hpp"
#include "sim/simulation/experiment.hpp"
#include "size_text.hpp"

namespace tutti::app {
namespace {

const std::map<std::string, sim::PlacementKind> kPlacements{
    {"packed", sim::PlacementKind::packed},
    {"even", sim::PlacementKind::even_blocks},
    {"spread", sim::PlacementKind::spread},
    {"random", sim::PlacementKind::random}};

}  // namespace

const std::map<std::string, sim::Routing>& routing_names() {
  static const std::map<std::string, sim::Routing> names{
      {"ecmp", sim::Routing::ecmp},
      {"adaptive", sim::Routing::adaptive},
      {"destination", sim::Routing::destination}};
  return names;
}

void NetworkOptions::add_to(CLI::App& command) {
  command.add_option("--bytes,-b", bytes,
                     "Size of a rank's block, or of the message, such as 64K or 1M");
  command.add_option(
      "--topology", topology,
      "single:HOSTS, tree:LEAVESxHOSTSxSPINES, cluster188 or "
      "radix:RADIXxLEVELS[xHOSTS] (default: the usual one for this number of ranks)");
  command
      .add_option("--topology-file", topology_file,
                  "File that describes the network, in the format of docs/simulator.md")
      ->check(CLI::ExistingFile);
  command
      .add_option("--placement", placement,
                  "Placement of ranks on hosts: packed, even, spread or random")
      ->transform(CLI::CheckedTransformer(kPlacements));
  command.add_option("--rate", rate, "Rate of all links, such as 56gbit");
  command
      .add_option("--background", background.streams,
                  "Number of background streams between random hosts")
      ->check(CLI::Range(0u, 1u << 20));
  command
      .add_option("--background-load", background.load,
                  "Share of a link that each background stream takes")
      ->check(CLI::Range(0.01, 1.0));
  command.add_option("--trace", trace, "Write a trace for Perfetto to this file");
}

Result<std::uint64_t> NetworkOptions::read_bytes() const { return parse_size_of("--bytes", bytes); }

Result<std::string> NetworkOptions::read_topology_file() const {
  if (topology_file.empty()) return std::string();
  std::ifstream in(topology_file);
  std::stringstream text;
  text << in.rdbuf();
  if (!in)
    return failure(Code::invalid_argument,
                   "cannot read topology file {}: check its path and permissions", topology_file);
  return text.str();
}

Result<simulation::TopologySpec> NetworkOptions::read_place(std::uint32_t ranks) const {
  const auto bits_per_second = lab::parse_rate(rate);
  if (!bits_per_second) return bits_per_second.status();
  simulation::TopologySpec place = simulation::default_place(ranks);
  if (!topology.empty()) {
    auto read = simulation::parse_place(topology);
    if (!read) return read.status();
    place = *read;
  }
  place.bits_per_second = *bits_per_second;
  place.placement = placement;
  return place;
}

double processor_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

nlohmann::json classes_json(const std::array<sim::TrafficCount, sim::kLinkClasses>& classes) {
  nlohmann::json json = nlohmann::json::object();
  for (std::size_t c = 0; c < classes.size(); ++c) {
    if (classes[c].packets == 0) continue;
    json[sim::to_string(static_cast<sim::LinkClass>(c))] = {
        {"packets", classes[c].packets},
        {"wire_bytes", classes[c].wire_bytes},
        {"payload_bytes", classes[c].payload_bytes}};
  }
  return json;
}

Status TraceFile::write() const {
  if (!trace_) return {};
  std::ofstream out(path_);
  trace_->write(out);
  out.close();
  if (!out) return cannot_write("--trace", path_, Code::invalid_argument);
  if (trace_->left_out() > 0) {
    fmt::print(stderr, "the trace is incomplete: {} spans are missing at its end\n",
               trace_->left_out());
  }
  return {};
}

}  // namespace tutti::app
