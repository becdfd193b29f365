#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "exit_status.hpp"
#include "lab/options.hpp"
#include "sim/sim_command.hpp"
#include "studies/radix_sort/sort_run.hpp"

namespace tutti::app {
namespace {

using simulation::ListRunner;
using simulation::SortReport;
using simulation::SortSpec;

struct SimSortOptions {
  SortSpec spec;
  std::vector<std::uint32_t> radices{2, 4, 6, 8, 10, 12, 14, 16};
  std::vector<std::uint64_t> keys{4096, 65536};
  double count_ns = 0;
  double local_ns = 0;
  double routes_ns = 0;
  std::int64_t post_ns = 0;
  std::int64_t task_ns = 0;
  std::string rate = "32gbit";
  bool json = false;
};

/// The results of one sort in four variants: blocking or overlapped, with task lists run by the
/// hosts or by the network interfaces.
struct Cell {
  /// Reports of the four variants. The first index is the ListRunner (hosts or network interfaces),
  /// the second is 0 (blocking) or 1 (overlapped).
  std::array<std::array<SortReport, 2>, 2> reports;

  const SortReport& of(ListRunner runner, bool overlapped) const {
    return reports[static_cast<std::size_t>(runner)][overlapped ? 1 : 0];
  }
  double ratio(ListRunner runner) const {
    return sim::to_seconds(of(runner, true).time) / sim::to_seconds(of(runner, false).time);
  }
  /// The gain as [Inozemtsev12] defines it, in percent: 100 * (1 - a / b). The overlapped sort,
  /// with task lists run by the network interfaces, takes the time a; the blocking sort, with task
  /// lists run by the hosts, takes the time b.
  double gain_percent() const {
    return 100 * (1 - sim::to_seconds(of(ListRunner::nic, true).time) /
                          sim::to_seconds(of(ListRunner::host, false).time));
  }
};

sim::Picoseconds from_ns(double ns) { return sim::picoseconds(std::llround(ns * 1e3)); }

nlohmann::json to_json(const SortReport& report) {
  nlohmann::json phases = nlohmann::json::object();
  for (std::size_t p = 0; p < simulation::kSortPhases; ++p) {
    phases[to_string(static_cast<simulation::SortPhase>(p))] =
        sim::to_microseconds(report.phases[p]);
  }
  return {{"time_us", sim::to_microseconds(report.time)},
          {"phases_us", phases},
          {"host_messages", report.lists.host_messages},
          {"nic_messages", report.lists.nic_messages},
          {"nic_waits", report.lists.nic_waits},
          {"looks", report.lists.looks},
          {"key_messages", report.key_messages},
          {"keys_moved", report.keys_moved},
          {"events", report.events},
          {"digest", fmt::format("{:016x}", report.digest)}};
}

nlohmann::json to_json(const SortSpec& spec, const Cell& cell) {
  nlohmann::json json = {{"radix", spec.radix},
                         {"keys_per_rank", spec.keys},
                         {"passes", cell.of(ListRunner::host, false).passes},
                         {"gain_percent", cell.gain_percent()}};
  for (const ListRunner runner : {ListRunner::host, ListRunner::nic}) {
    json[to_string(runner)] = {{"blocking", to_json(cell.of(runner, false))},
                               {"overlapped", to_json(cell.of(runner, true))},
                               {"ratio", cell.ratio(runner)}};
  }
  return json;
}

nlohmann::json settings_json(const SimSortOptions& options) {
  const SortSpec& spec = options.spec;
  return {{"hosts", spec.hosts},
          {"ranks_per_host", spec.ranks_per_host},
          {"hierarchical", spec.hierarchical},
          {"algorithm", spec.algorithm},
          {"ports", spec.ports},
          {"buffer_per_block", spec.buffer_per_block},
          {"key_bits", spec.key_bits},
          {"bits_per_second", spec.bits_per_second},
          {"count_ns", options.count_ns},
          {"local_ns", options.local_ns},
          {"routes_ns", options.routes_ns},
          {"slice_keys", spec.slice_keys},
          {"poll_ns", spec.costs.host.poll.count()},
          {"message_ns", spec.costs.host.message.count()},
          {"completion_ns", spec.costs.completion.count()},
          {"post_ns", spec.costs.post.count()},
          {"task_ns", spec.costs.task.count()},
          {"copy_bits_per_second", spec.costs.copy_bits_per_second}};
}

void print_head(const SimSortOptions& options) {
  const SortSpec& spec = options.spec;
  fmt::print(
      "{} hosts of {} ranks, {}, Allgather {} by {} port(s), {:g} Gbit/s; "
      "{:g} ns to count a key, {:g} ns to put it in order; {:g} ns per count of the histograms\n"
      "times in us; gain: interfaces and overlapped over hosts and blocking, in percent\n\n",
      spec.hosts, spec.ranks_per_host, spec.hierarchical ? "hierarchical" : "flat", spec.algorithm,
      spec.ports, static_cast<double>(spec.bits_per_second) / 1e9, options.count_ns,
      options.local_ns, options.routes_ns);
  fmt::print("  {:>6} {:>8} | {:>11} {:>11} {:>6} {:>10} | {:>11} {:>11} {:>6} {:>10} | {:>7}\n",
             "radix", "keys", "host", "overlapped", "ratio", "allgather", "interface", "overlapped",
             "ratio", "allgather", "gain");
}

void print_row(const SortSpec& spec, const Cell& cell) {
  fmt::print("  {:>6} {:>8}", spec.radix, spec.keys);
  for (const ListRunner runner : {ListRunner::host, ListRunner::nic}) {
    const SortReport& blocking = cell.of(runner, false);
    const auto allgather = static_cast<std::size_t>(simulation::SortPhase::allgather);
    fmt::print(" | {:>11.1f} {:>11.1f} {:>6.3f} {:>10.1f}", sim::to_microseconds(blocking.time),
               sim::to_microseconds(cell.of(runner, true).time), cell.ratio(runner),
               sim::to_microseconds(blocking.phases[allgather]));
  }
  fmt::print(" | {:>+7.1f}\n", cell.gain_percent());
}

Result<Cell> run_cell(SortSpec spec) {
  Cell cell;
  for (const ListRunner runner : {ListRunner::host, ListRunner::nic}) {
    for (const bool overlapped : {false, true}) {
      spec.runner = runner;
      spec.overlapped = overlapped;
      auto report = simulation::run_sort(spec);
      if (!report) return report.status();
      cell.reports[static_cast<std::size_t>(runner)][overlapped ? 1 : 0] = *report;
    }
  }
  return cell;
}

Status run(SimSortOptions& options) {
  SortSpec& spec = options.spec;
  const auto rate = lab::parse_rate(options.rate);
  if (!rate) return rate.status();
  spec.bits_per_second = *rate;
  spec.work = {from_ns(options.count_ns), from_ns(options.local_ns), from_ns(options.routes_ns)};
  spec.costs.post = Nanoseconds(options.post_ns);
  spec.costs.task = Nanoseconds(options.task_ns);
  nlohmann::json rows = nlohmann::json::array();
  if (!options.json) print_head(options);
  for (const std::uint64_t keys : options.keys) {
    for (const std::uint32_t radix : options.radices) {
      spec.keys = keys;
      spec.radix = radix;
      const auto cell = run_cell(spec);
      if (!cell) return cell.status();
      if (options.json) {
        rows.push_back(to_json(spec, *cell));
      } else {
        print_row(spec, *cell);
      }
    }
  }
  if (options.json) {
    fmt::print("{}\n",
               nlohmann::json{{"settings", settings_json(options)}, {"rows", rows}}.dump(1));
  }
  return {};
}

void add_work(CLI::App& command, SimSortOptions& options) {
  const auto add = [&](const char* name, double& value, const char* text) {
    command.add_option(name, value, text)->required()->check(CLI::Range(0.0, 1e6));
  };
  add("--count-ns", options.count_ns,
      "Time in ns to count one key: the phase count of radix_sort, per key");
  add("--local-ns", options.local_ns,
      "Time in ns to put one key in order: the phase local of radix_sort, per key");
  add("--routes-ns", options.routes_ns,
      "Time in ns to process one count in the histograms of all ranks: the phase routes of "
      "radix_sort, per count");
}

void add_costs(CLI::App& command, SimSortOptions& options) {
  const auto add = [&](const char* name, std::int64_t& value, Nanoseconds usual, const char* text) {
    value = usual.count();
    command.add_option(name, value, text)->check(CLI::Range(0, 1'000'000))->capture_default_str();
  };
  const simulation::ListCosts costs;
  add("--post-ns", options.post_ns, costs.post,
      "Time in ns for a host to post a task to its interface");
  add("--task-ns", options.task_ns, costs.task,
      "Time in ns of an interface for a message, a wait or an enable");
}

}  // namespace

void add_sim_sort_command(CLI::App& sim, int& exit_code) {
  CLI::App* command = sim.add_subcommand(
      "sort",
      "Simulate a radix sort whose Allgathers are blocking or overlapped, and run by hosts or by "
      "interfaces with wait and enable");
  const auto options = std::make_shared<SimSortOptions>();
  SortSpec& spec = options->spec;
  command->add_option("--hosts", spec.hosts, "Number of hosts on one switch")
      ->check(CLI::Range(1u, 4096u));
  command
      ->add_option("--ranks-per-host", spec.ranks_per_host,
                   "Ranks per host, which share its interface")
      ->check(CLI::Range(1u, 64u));
  command->add_flag("--hierarchical", spec.hierarchical,
                    "Combine a host's ranks in its memory; one of them communicates for all");
  command->add_option("--algorithm", spec.algorithm,
                      "Algorithm of the Allgather, as `tutti explain` names it");
  command->add_option("--ports", spec.ports, "Ports of a k-port algorithm")
      ->check(CLI::Range(1u, 16u));
  command->add_option("--radix", options->radices, "Radices of the sort, a list")
      ->delimiter(',')
      ->check(CLI::Range(2u, 65536u));
  command->add_option("--keys", options->keys, "Numbers of keys per rank, a list")
      ->delimiter(',')
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 28));
  command->add_option("--key-bits", spec.key_bits, "32 or 64")->check(CLI::IsMember({32u, 64u}));
  command->add_option("--rate", options->rate, "Rate of all links")->capture_default_str();
  add_work(*command, *options);
  add_costs(*command, *options);
  command->add_flag(
      "--buffer-per-block", spec.buffer_per_block,
      "Limit an interface's eager buffers to one block, so that it sends block by block");
  command->add_flag("--json", options->json, "Print JSON");
  command->callback([options, &exit_code] {
    if (Status status = run(*options); !status) exit_code = complain("sim sort", status);
  });
}

}  // namespace tutti::app
