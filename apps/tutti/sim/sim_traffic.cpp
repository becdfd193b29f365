#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "exit_status.hpp"
#include "sim/network_options.hpp"
#include "sim/sim_command.hpp"
#include "sim/simulation/experiment.hpp"
#include "studies/traffic/plan_catalog.hpp"
#include "studies/traffic/traffic_experiment.hpp"

namespace tutti::app {
namespace {

using simulation::TrafficReport;
using simulation::TrafficSpec;

struct SimTrafficOptions {
  TrafficSpec spec;
  NetworkOptions network;
  std::uint32_t overhead_ns = 0;
  bool per_packet = false;
  bool json = false;
};

nlohmann::json to_json(const TrafficSpec& spec, const TrafficReport& report, double seconds) {
  nlohmann::json times = nlohmann::json::array();
  for (const sim::Picoseconds time : report.times) times.push_back(sim::to_microseconds(time));
  nlohmann::json finish = nlohmann::json::array();
  for (const sim::Picoseconds time : report.finish) finish.push_back(sim::to_microseconds(time));
  nlohmann::json hosts = nlohmann::json::array();
  for (const sim::HostId host : report.hosts) hosts.push_back(index(host));
  nlohmann::json rules = nlohmann::json::object();
  for (std::size_t r = 0; r < report.rules.size(); ++r) {
    rules[to_string(static_cast<sim::CountingRule>(r))] = {
        {"wire_bytes", report.rules[r].wire_bytes},
        {"payload_bytes", report.rules[r].payload_bytes}};
  }
  return {{"algorithm", spec.algorithm},
          {"ranks", spec.ranks},
          {"bytes", spec.bytes},
          {"topology", spec.topology_text.empty() ? simulation::to_string(spec.place) : "a file's"},
          {"bits_per_second", spec.place.bits_per_second},
          {"packet_payload_bytes", spec.traffic.mtu_bytes},
          {"seed", spec.seed},
          {"hosts", hosts},
          {"times_us", times},
          {"finish_us", finish},
          {"link_classes", classes_json(report.classes)},
          {"counting_rules", rules},
          {"paper_units", report.paper_units},
          {"packet_hops", report.fabric.hops},
          {"contributions_absorbed", report.fabric.absorbed},
          {"most_open_reductions", report.fabric.most_open_reductions},
          {"train_conflicts", report.fabric.train_conflicts},
          {"events", report.events},
          {"processor_seconds", seconds},
          {"digest", fmt::format("{:016x}", report.digest)}};
}

void print_text(const TrafficSpec& spec, const TrafficReport& report, double seconds) {
  fmt::print("{} of {} bytes among {} ranks on {} at {:g} Gbit/s, seed {}\n", spec.algorithm,
             spec.bytes, spec.ranks, simulation::to_string(spec.place),
             static_cast<double>(spec.place.bits_per_second) / 1e9, spec.seed);
  for (const sim::Picoseconds time : report.times) {
    fmt::print("  time       {:.3f} us\n", sim::to_microseconds(time));
  }
  fmt::print("\n  {:<10} {:>14} {:>20} {:>20}\n", "links", "packets", "payload bytes",
             "wire bytes");
  const auto row = [](const char* name, const sim::TrafficCount& count) {
    if (count.packets == 0) return;
    fmt::print("  {:<10} {:>14} {:>20} {:>20}\n", name, count.packets, count.payload_bytes,
               count.wire_bytes);
  };
  for (std::size_t c = 0; c < report.classes.size(); ++c) {
    row(sim::to_string(static_cast<sim::LinkClass>(c)), report.classes[c]);
  }
  fmt::print(
      "\n  LINK: every link once; RXTX, TX, RX: by the counters of all switch ports; FAB: links "
      "between switches\n");
  for (std::size_t r = 0; r < report.rules.size(); ++r) {
    row(to_string(static_cast<sim::CountingRule>(r)), report.rules[r]);
  }
  fmt::print("\n  simulated  {} packet hops, {} events in {:.2f} s of one core: {:.2f} M hops/s\n",
             report.fabric.hops, report.events, seconds,
             static_cast<double>(report.fabric.hops) / seconds / 1e6);
}

Status run(SimTrafficOptions& options) {
  TrafficSpec& spec = options.spec;
  const auto bytes = options.network.read_bytes();
  if (!bytes) return bytes.status();
  const auto place = options.network.read_place(spec.ranks);
  if (!place) return place.status();
  auto topology = options.network.read_topology_file();
  if (!topology) return topology.status();
  spec.topology_text = std::move(*topology);
  spec.bytes = *bytes;
  spec.place = *place;
  spec.background = options.network.background;
  spec.traffic.message_overhead = sim::nanoseconds(options.overhead_ns);
  if (options.per_packet) {
    spec.traffic.trains = false;
    spec.leaf_groups = false;
  }
  TraceFile trace(options.network.trace);
  spec.trace = trace.get();
  const double before = processor_seconds();
  const auto report = simulation::run_traffic(spec);
  const double seconds = processor_seconds() - before;
  if (!report) return report.status();
  if (Status written = trace.write(); !written) return written;
  if (options.json) {
    fmt::print("{}\n", to_json(spec, *report, seconds).dump(1));
  } else {
    print_text(spec, *report, seconds);
  }
  return {};
}

}  // namespace

void add_sim_traffic_command(CLI::App& sim, int& exit_code) {
  CLI::App* command = sim.add_subcommand(
      "traffic",
      "Simulate the messages of an algorithm without a protocol: time, bytes by link class");
  const auto options = std::make_shared<SimTrafficOptions>();
  TrafficSpec& spec = options->spec;
  std::string names;
  for (const tutti::sim::NamedPlan& one : tutti::sim::plan_catalog()) {
    names += (names.empty() ? "" : ", ") + std::string(one.name);
  }
  command->add_option("algorithm", spec.algorithm,
                      names + ", or COLLECTIVE/ALGORITHM, such as allreduce/ring");
  command->add_option("--ranks,-p", spec.ranks, "Number of ranks")->check(CLI::Range(1u, 1u << 20));
  options->network.add_to(*command);
  command->add_option("--iterations,-n", spec.iterations, "Number of runs, each on an idle network")
      ->check(CLI::Range(1u, 1u << 16));
  command->add_option("--seed", spec.seed, "Seed of all random choices");
  command->add_option("--routing", spec.routing, "Routing: ecmp, adaptive or destination")
      ->transform(CLI::CheckedTransformer(routing_names()));
  command->add_option("--mtu", spec.traffic.mtu_bytes, "Largest payload of a packet in bytes")
      ->check(CLI::Range(64u, 65536u));
  command->add_option("--overhead-ns", options->overhead_ns,
                      "Time in ns from the last byte of a message to the next send");
  command->add_flag("--per-packet", options->per_packet,
                    "Simulate an event per packet and host instead of one for several packets");
  command->add_flag("!--lossy", spec.lossless,
                    "Let switches drop packets that do not fit their queues");
  command->add_flag("--json", options->json, "Print JSON");
  command->callback([options, &exit_code] {
    if (Status status = run(*options); !status) exit_code = complain("sim traffic", status);
  });
}

}  // namespace tutti::app
