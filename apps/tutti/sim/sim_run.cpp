#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <array>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "exit_status.hpp"
#include "microseconds.hpp"
#include "sim/network_options.hpp"
#include "sim/sim_command.hpp"
#include "sim/simulation/experiment.hpp"

namespace tutti::app {
namespace {

using simulation::CollectiveKind;
using simulation::ExperimentReport;
using simulation::ExperimentSpec;

struct SimRunOptions {
  ExperimentSpec spec;
  CollectiveKind kind = CollectiveKind::allgather;
  NetworkOptions network;
  bool json = false;
  bool csv = false;
};

const std::map<std::string, CollectiveKind> kCollectives{
    {"allgather", CollectiveKind::allgather},
    {"broadcast", CollectiveKind::broadcast},
    {"ring-allgather", CollectiveKind::ring_allgather},
    {"chain-broadcast", CollectiveKind::chain_broadcast},
    {"barrier", CollectiveKind::barrier}};
Status complete(SimRunOptions& options) {
  ExperimentSpec& spec = options.spec;
  const auto bytes = options.network.read_bytes();
  if (!bytes) return bytes.status();
  auto place = options.network.read_place(spec.ranks);
  if (!place) return place.status();
  auto topology = options.network.read_topology_file();
  if (!topology) return topology.status();
  spec.topology_text = std::move(*topology);
  spec.place = *place;
  spec.collective.kind = options.kind;
  spec.collective.bytes = *bytes;
  spec.collective.in_place =
      options.kind == CollectiveKind::allgather || options.kind == CollectiveKind::ring_allgather;
  spec.background = options.network.background;
  return {};
}

nlohmann::json to_json(const ExperimentSpec& spec, const ExperimentReport& report, double seconds) {
  nlohmann::json times = nlohmann::json::array();
  for (const Nanoseconds time : report.times) times.push_back(microseconds(time));
  nlohmann::json finish = nlohmann::json::array();
  for (const Nanoseconds time : report.finish) finish.push_back(microseconds(time));
  return {{"collective", simulation::to_string(spec.collective.kind)},
          {"ranks", spec.ranks},
          {"bytes", spec.collective.bytes},
          {"topology", spec.topology_text.empty() ? simulation::to_string(spec.place) : "a file's"},
          {"bits_per_second", spec.place.bits_per_second},
          {"chunk_bytes", spec.chunk_bytes},
          {"chains", spec.chains},
          {"subgroups", spec.subgroups},
          {"lossless", spec.lossless},
          {"seed", spec.seed},
          {"times_us", times},
          {"finish_us", finish},
          {"phases_us",
           {{"ready", report.phases.ready_ns / 1e3},
            {"data", report.phases.data_ns / 1e3},
            {"handshake", report.phases.handshake_ns / 1e3}}},
          {"link_classes", classes_json(report.classes)},
          {"bytes_fetched", report.bytes_fetched},
          {"connections", {{"mean", report.mean_connections}, {"max", report.max_connections}}},
          {"per_packet", spec.per_packet},
          {"packet_hops", report.fabric.hops},
          {"events", report.events},
          {"processor_seconds", seconds},
          {"digest", fmt::format("{:016x}", report.digest)}};
}

void print_csv(const ExperimentSpec& spec, const ExperimentReport& report) {
  fmt::print(
      "collective,ranks,bytes,topology,iteration,time_us,link_class,packets,wire_bytes,"
      "payload_bytes\n");
  for (std::size_t i = 0; i < report.times.size(); ++i) {
    for (std::size_t c = 0; c < sim::kLinkClasses; ++c) {
      const sim::TrafficCount& count = report.classes[c];
      if (count.packets == 0) continue;
      fmt::print("{},{},{},{},{},{:.3f},{},{},{},{}\n", simulation::to_string(spec.collective.kind),
                 spec.ranks, spec.collective.bytes, simulation::to_string(spec.place), i,
                 microseconds(report.times[i]), sim::to_string(static_cast<sim::LinkClass>(c)),
                 count.packets, count.wire_bytes, count.payload_bytes);
    }
  }
}

void print_text(const ExperimentSpec& spec, const ExperimentReport& report, double seconds) {
  fmt::print("{} of {} bytes among {} ranks on {} at {:g} Gbit/s, seed {}\n",
             simulation::to_string(spec.collective.kind), spec.collective.bytes, spec.ranks,
             simulation::to_string(spec.place),
             static_cast<double>(spec.place.bits_per_second) / 1e9, spec.seed);
  for (const Nanoseconds time : report.times)
    fmt::print("  time       {:.3f} us\n", microseconds(time));
  const simulation::PhaseTimes& phases = report.phases;
  fmt::print(
      "  phases     ready {:.3f} us, data {:.3f} us, handshake {:.3f} us (mean of the ranks)\n",
      phases.ready_ns / 1e3, phases.data_ns / 1e3, phases.handshake_ns / 1e3);
  fmt::print("\n  {:<10} {:>14} {:>20} {:>20}\n", "links", "packets", "payload bytes",
             "wire bytes");
  sim::TrafficCount sum;
  for (std::size_t c = 0; c < sim::kLinkClasses; ++c) {
    const sim::TrafficCount& count = report.classes[c];
    if (count.packets == 0) continue;
    sum += count;
    fmt::print("  {:<10} {:>14} {:>20} {:>20}\n", sim::to_string(static_cast<sim::LinkClass>(c)),
               count.packets, count.payload_bytes, count.wire_bytes);
  }
  fmt::print("  {:<10} {:>14} {:>20} {:>20}\n", "all", sum.packets, sum.payload_bytes,
             sum.wire_bytes);
  fmt::print(
      "\n  fetched    {} bytes\n  held       {:.1f} connections a rank, at most {}\n"
      "  simulated  {} packet hops, {} events in {:.2f} s of one core: {:.2f} M hops/s\n"
      "  digest     {:016x}\n",
      report.bytes_fetched, report.mean_connections, report.max_connections, report.fabric.hops,
      report.events, seconds, static_cast<double>(report.fabric.hops) / seconds / 1e6,
      report.digest);
}

Status run(SimRunOptions& options) {
  if (Status status = complete(options); !status) return status;
  TraceFile trace(options.network.trace);
  options.spec.trace = trace.get();
  const double before = processor_seconds();
  const auto report = simulation::run_experiment(options.spec);
  const double seconds = processor_seconds() - before;
  if (!report) return report.status();
  if (Status written = trace.write(); !written) return written;
  if (options.json) {
    fmt::print("{}\n", to_json(options.spec, *report, seconds).dump(1));
  } else if (options.csv) {
    print_csv(options.spec, *report);
  } else {
    print_text(options.spec, *report, seconds);
  }
  return {};
}

}  // namespace

void add_sim_run_command(CLI::App& sim, int& exit_code) {
  CLI::App* command =
      sim.add_subcommand("run", "Simulate one collective: time, phases, bytes by link class");
  const auto options = std::make_shared<SimRunOptions>();
  ExperimentSpec& spec = options->spec;
  command
      ->add_option("collective", options->kind,
                   "allgather, broadcast, ring-allgather, "
                   "chain-broadcast or barrier")
      ->transform(CLI::CheckedTransformer(kCollectives));
  command->add_option("--ranks,-p", spec.ranks, "Number of ranks")->check(CLI::Range(1u, 1u << 20));
  options->network.add_to(*command);
  command
      ->add_option("--iterations,-n", spec.iterations, "Number of collectives, one after another")
      ->check(CLI::Range(1u, 1u << 16));
  command->add_option("--routing", spec.routing, "Routing: ecmp, adaptive or destination")
      ->transform(CLI::CheckedTransformer(routing_names()));
  command->add_option("--seed", spec.seed, "Seed of all random choices");
  command->add_option("--chunk-bytes", spec.chunk_bytes, "Payload bytes of a packet")
      ->check(CLI::Range(256u, 65536u));
  command->add_option("--chains", spec.chains, "Ranks that multicast at the same time; 0: learned");
  command->add_option("--subgroups", spec.subgroups, "Multicast subgroups")
      ->check(CLI::Range(1u, 256u));
  command->add_option("--staging", spec.staging_chunks, "Receives posted per subgroup")
      ->check(CLI::Range(1u, 1u << 24));
  command->add_option("--loss-ppm", spec.loss_ppm, "Lost packets per million on every link")
      ->check(CLI::Range(0u, 1'000'000u));
  command->add_flag("--per-packet", spec.per_packet,
                    "Simulate an event per packet and host instead of one for several packets");
  command->add_flag("--carry", spec.carry_bytes, "Carry the data and check it");
  command->add_flag("!--lossy", spec.lossless,
                    "Let switches drop packets that do not fit their queues");
  command->add_flag("--json", options->json, "Print JSON");
  command->add_flag("--csv", options->csv, "Print CSV, one line per link class");
  command->callback([options, &exit_code] {
    if (Status status = run(*options); !status) exit_code = complain("sim run", status);
  });
}

}  // namespace tutti::app
