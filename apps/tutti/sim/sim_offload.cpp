#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "exit_status.hpp"
#include "sim/sim_command.hpp"
#include "size_text.hpp"
#include "studies/offload/trigger_experiment.hpp"

namespace tutti::app {
namespace {

using simulation::OffloadSpeedup;
using simulation::TriggerNetworkReport;
using simulation::TriggerNetworkSpec;

struct SimOffloadOptions {
  std::string what = "table";
  std::vector<std::string> sizes;
  std::vector<std::uint32_t> jobs{simulation::kOffloadJobs.begin(), simulation::kOffloadJobs.end()};
  std::string links;
  std::uint32_t nodes = 32;
  std::uint64_t seed = 1;
  bool json = false;
};

nlohmann::json parameters_json(const TriggerNetworkSpec& spec) {
  const simulation::OffloadLatency& latency = spec.latency;
  return {{"L_CPU_us", sim::to_microseconds(latency.processor)},
          {"L_IO_us", sim::to_microseconds(latency.bus)},
          {"L_network_us", sim::to_microseconds(latency.network)},
          {"L_Poll_us", sim::to_microseconds(latency.poll)},
          {"T_nic_bits_per_second", latency.link_bits_per_second},
          {"T_soft_bits_per_second", latency.memory_bits_per_second},
          {"T_Compute_bits_per_second", latency.compute_bits_per_second},
          {"nodes", spec.nodes},
          {"units", spec.bank.units},
          {"buffer_bytes", spec.bank.unit.buffer_bytes},
          {"slot_bytes", spec.bank.unit.slot_bytes},
          {"sequences", spec.bank.unit.sequences},
          {"segment_bytes", spec.segment_bytes},
          {"capacity_elements", spec.credits.capacity_elements},
          {"pulses", spec.credits.pulses},
          {"window", spec.credits.window},
          {"broadcast_pieces", simulation::kBroadcastPieces},
          {"tick_us", sim::to_microseconds(spec.tick)},
          {"retry_us", sim::to_microseconds(spec.retry)},
          {"start_spread_us", sim::to_microseconds(spec.start_spread)},
          {"shared_links", spec.shared_links}};
}

nlohmann::json to_json(const TriggerNetworkSpec& spec, const TriggerNetworkReport& report) {
  return {{"bytes", spec.bytes},
          {"jobs", spec.jobs},
          {"time_us", sim::to_microseconds(report.time)},
          {"root_time_us", sim::to_microseconds(report.root_time)},
          {"mean_used_percent", report.mean_used_percent},
          {"peak_used_percent", report.peak_used_percent},
          {"mean_waiting_percent", report.mean_waiting_percent},
          {"most_full_percent", report.most_full_percent},
          {"allowed_percent", report.allowed_percent},
          {"packets", report.packets},
          {"held_back", report.held_back},
          {"pushed_back", report.pushed_back},
          {"stalled", report.stalled},
          {"posts_deferred", report.posts_deferred},
          {"pulses", report.pulses},
          {"pulses_in_flight", report.pulses_in_flight},
          {"pulses_allowed", report.pulses_allowed},
          {"results_checked", report.results_checked},
          {"digest", fmt::format("{:016x}", report.digest)},
          {"parameters", parameters_json(spec)}};
}

nlohmann::json to_json(const TriggerNetworkSpec& spec, const OffloadSpeedup& result) {
  nlohmann::json json = to_json(spec, result.offloaded);
  json["host_time_us"] = sim::to_microseconds(result.host.time);
  json["host_root_time_us"] = sim::to_microseconds(result.host.root_time);
  json["speedup"] = result.speedup;
  json["formula"] = result.formula;
  json["startup_bytes"] = result.startup_bytes;
  return json;
}

void print_head(const SimOffloadOptions& options, const TriggerNetworkSpec& spec) {
  const bool table = options.what == "table";
  fmt::print("{} of doubles, {} nodes; {} units of {} KiB each; jobs {} their node's link\n\n",
             table ? "allreduce" : options.what, spec.nodes, spec.bank.units,
             spec.bank.unit.buffer_bytes / 1024, spec.shared_links ? "share" : "do not share");
  if (table) {
    fmt::print("  {:>9} {:>5} {:>12} {:>8} {:>8} {:>9} {:>10} {:>11}\n", "bytes", "jobs", "time us",
               "used %", "peak %", "waiting %", "packets", "held back");
  } else {
    fmt::print("  {:>9} {:>5} {:>12} {:>12} {:>8} {:>8} {:>11}\n", "bytes", "jobs", "offloaded us",
               "host us", "speedup", "formula", "held back");
  }
}

void print_row(const TriggerNetworkSpec& spec, const TriggerNetworkReport& report) {
  fmt::print("  {:>9} {:>5} {:>12.2f} {:>8.2f} {:>8.2f} {:>9.2f} {:>10} {:>11}\n", spec.bytes,
             spec.jobs, sim::to_microseconds(report.time), report.mean_used_percent,
             report.peak_used_percent, report.mean_waiting_percent, report.packets,
             report.held_back);
}

void print_row(const TriggerNetworkSpec& spec, const OffloadSpeedup& result) {
  fmt::print("  {:>9} {:>5} {:>12.2f} {:>12.2f} {:>8.3f} {:>8.3f} {:>11}\n", spec.bytes, spec.jobs,
             sim::to_microseconds(result.offloaded.time), sim::to_microseconds(result.host.time),
             result.speedup, result.formula, result.offloaded.held_back);
}

template <typename Result>
void show(const SimOffloadOptions& options, const TriggerNetworkSpec& spec, const Result& result,
          nlohmann::json& rows) {
  if (options.json) {
    rows.push_back(to_json(spec, result));
  } else {
    print_row(spec, result);
  }
}

Status run_one(const SimOffloadOptions& options, const TriggerNetworkSpec& spec,
               nlohmann::json& rows) {
  if (options.what == "table") {
    const auto report = simulation::run_trigger_network(spec);
    if (!report) return report.status();
    show(options, spec, *report, rows);
    return {};
  }
  const auto result = simulation::run_offload_speedup(spec);
  if (!result) return result.status();
  show(options, spec, *result, rows);
  return {};
}

Result<std::vector<std::uint64_t>> read_sizes(const SimOffloadOptions& options) {
  std::vector<std::uint64_t> sizes;
  for (const std::string& text : options.sizes) {
    const auto size = parse_size_of("--sizes", text);
    if (!size) return size.status();
    sizes.push_back(*size);
  }
  if (sizes.empty())
    sizes.assign(simulation::kOffloadSizes.begin(), simulation::kOffloadSizes.end());
  return sizes;
}

trigger::CollectiveKind kind_of(const std::string& what) {
  if (what == "broadcast") return trigger::CollectiveKind::broadcast;
  return what == "reduce" ? trigger::CollectiveKind::reduce : trigger::CollectiveKind::allreduce;
}

Status run(const SimOffloadOptions& options) {
  const auto sizes = read_sizes(options);
  if (!sizes) return sizes.status();
  nlohmann::json rows = nlohmann::json::array();
  bool first = true;
  for (const std::uint32_t jobs : options.jobs) {
    for (const std::uint64_t size : *sizes) {
      TriggerNetworkSpec spec = simulation::tianhe_interface(kind_of(options.what), size, jobs);
      if (!options.links.empty()) spec.shared_links = options.links == "shared";
      spec.nodes = options.nodes;
      spec.seed = options.seed;
      if (first && !options.json) print_head(options, spec);
      first = false;
      if (Status done = run_one(options, spec, rows); !done) return done;
    }
  }
  if (options.json) fmt::print("{}\n", rows.dump(1));
  return {};
}

}  // namespace

void add_sim_offload_command(CLI::App& sim, int& exit_code) {
  CLI::App* command = sim.add_subcommand(
      "offload", "Simulate collectives by triggers on network interfaces: buffer use and speedups");
  const auto options = std::make_shared<SimOffloadOptions>();
  command
      ->add_option("what", options->what,
                   "table: use of the hash buffers in Allreduces; broadcast, reduce or "
                   "allreduce: speedup of this collective over hosts")
      ->check(CLI::IsMember({"table", "broadcast", "reduce", "allreduce"}));
  command
      ->add_option("--sizes,-s", options->sizes,
                   "Sizes of a vector, a list (default: 256 B to 1 MiB)")
      ->delimiter(',');
  command->add_option("--jobs,-j", options->jobs, "Numbers of concurrent jobs, a list")
      ->delimiter(',')
      ->check(CLI::Range(1u, 32u));
  command
      ->add_option("--links", options->links,
                   "shared: the jobs of a node share its link and memory; own: each has its "
                   "own, as in the formulas of [Xu25] (default: own for Broadcast, else shared)")
      ->check(CLI::IsMember({"shared", "own"}));
  command->add_option("--nodes,-p", options->nodes, "Number of nodes, each with a rank of each job")
      ->check(CLI::Range(2u, 1024u));
  command->add_option("--seed", options->seed, "Seed of the times at which processes call");
  command->add_flag("--json", options->json, "Print JSON");
  command->callback([options, &exit_code] {
    if (Status status = run(*options); !status) exit_code = complain("sim offload", status);
  });
}

}  // namespace tutti::app
