#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <thread>

#include "base/error.hpp"
#include "exit_status.hpp"
#include "sim/sim_command.hpp"
#include "sim/simulation/swarm.hpp"

namespace tutti::app {
namespace {

struct SimSwarmOptions {
  simulation::SwarmOptions draws;
  std::string seeds = "1..1000";
  std::string output;
  bool no_shrink = false;
  unsigned jobs = std::max(1u, std::thread::hardware_concurrency());
};

bool parse_range(const std::string& text, std::uint64_t& first, std::uint64_t& last) {
  const std::size_t dots = text.find("..");
  const auto number = [](std::string_view digits, std::uint64_t& value) {
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return error == std::errc() && end == digits.data() + digits.size();
  };
  const std::string_view all(text);
  if (dots == std::string::npos) {
    last = first = 0;
    return number(all, first) && number(all, last);
  }
  return number(all.substr(0, dots), first) && number(all.substr(dots + 2), last) && first <= last;
}

/// If standard error is a terminal, prints the progress of a swarm to it a few times per second.
class SwarmProgress {
 public:
  explicit SwarmProgress(std::uint64_t seeds) : seeds_(seeds) {}
  void operator()(const simulation::SwarmSummary& summary) {
    const auto now = std::chrono::steady_clock::now();
    if (!terminal_ || now - last_ < std::chrono::milliseconds(200)) return;
    last_ = now;
    fmt::print(stderr, "\r{} of {} seeds, {} collectives", summary.seeds, seeds_,
               summary.completed);
    std::fflush(stderr);
  }
  void end() const {
    if (terminal_) fmt::print(stderr, "\r\033[K");
  }

 private:
  std::uint64_t seeds_;
  bool terminal_ = ::isatty(2) == 1;
  std::chrono::steady_clock::time_point last_{};
};

/// Returns the kind of a failure, which is its text without digits. The shrinker accepts a smaller
/// scenario only if its failure is of the same kind.
std::string kind_of(const Status& status) {
  std::string kind = status.message();
  std::erase_if(kind, [](char c) { return '0' <= c && c <= '9'; });
  return kind;
}

Status swarm(const SimSwarmOptions& options) {
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  if (!parse_range(options.seeds, first, last)) {
    return failure(
        Code::invalid_argument,
        "--seeds {} is not a range of seeds: use a range such as 1..1000, or one seed such as 7",
        options.seeds);
  }
  SwarmProgress progress(last - first + 1);
  const auto begin = std::chrono::steady_clock::now();
  const simulation::SwarmSummary summary = simulation::run_swarm(
      first, last, options.draws, [&](const auto& one) { progress(one); }, options.jobs);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  progress.end();
  fmt::print(
      "{} seeds, {} collectives done per rank, {} ended by a death, {} events, {:.0f} "
      "seeds/s, digest {:016x}\n",
      summary.seeds, summary.completed, summary.failed, summary.events,
      static_cast<double>(summary.seeds) / seconds, summary.digest);
  const simulation::SwarmFeatures& drawn = summary.drawn;
  fmt::print(
      "drawn: {} software, {} slots, {} stops, {} deaths, {} flaps, {} one-way, {} black-holes, {} "
      "replays, {} strangers, {} point-to-point, {} messages, {} atomics, {} big-endian, {} "
      "conversions, {} few-connections, {} aggregators, {} receive-workers, {} uc, {} hierarchies, "
      "{} closes, {} limited-closes; {} datagrams of strangers refused\n",
      drawn.software, drawn.slots, drawn.stops, drawn.deaths, drawn.flaps, drawn.one_way,
      drawn.black_holes, drawn.replays, drawn.strangers, drawn.point_to_point, drawn.messages,
      drawn.atomics, drawn.big_endian, drawn.conversions, drawn.few_connections, drawn.aggregators,
      drawn.receive_workers, drawn.uc, drawn.hierarchies, drawn.closes, drawn.limited_closes,
      summary.strangers_refused);
  if (!summary.found) return {};
  simulation::Scenario scenario = simulation::draw_scenario(summary.failing_seed, options.draws);
  if (!options.no_shrink) {
    const std::string kind = kind_of(summary.failure);
    scenario = simulation::shrink(scenario, [&](const simulation::Scenario& one) {
      const Status verdict = simulation::run_scenario(one).report.verdict;
      return !verdict.ok() && verdict.code() == summary.failure.code() && kind_of(verdict) == kind;
    });
  }
  fmt::print("seed {} fails: {}\nagain: {}\n", summary.failing_seed, summary.failure.to_string(),
             simulation::replay_command(summary.failing_seed, options.draws));
  if (options.output.empty()) {
    fmt::print("or `tutti sim replay` of these lines:\n\n{}", scenario.to_string());
  } else {
    std::ofstream(options.output) << scenario.to_string();
    fmt::print("or: tutti sim replay {}\n", options.output);
  }
  return failure(Code::internal, "the scenario of seed {} failed: see its error above",
                 summary.failing_seed);
}

Status replay(const std::string& file) {
  std::ifstream in(file);
  std::stringstream text;
  text << in.rdbuf();
  if (!in)
    return failure(Code::invalid_argument,
                   "cannot read scenario file {}: check its path and permissions", file);
  const auto scenario = simulation::Scenario::parse(text.str());
  if (!scenario) return scenario.status();
  const simulation::ScenarioResult result = simulation::run_scenario(*scenario);
  std::size_t frames = 0;
  for (const auto& one : result.frames) frames += one.size();
  fmt::print(
      "{} collectives done per rank, {} failed, ended at {:.3f} us, {} events, digest "
      "{:016x}\n",
      result.report.completed, result.report.failed,
      static_cast<double>(result.report.ended.nanoseconds) / 1e3, result.report.events,
      result.report.digest);
  fmt::print(
      "faults: {} chunks lost at senders, {} at receivers, {} delayed, {} reordered, {} "
      "duplicated, {} corrupted; {} frames, {} packets in the network, {} on cut paths, {} "
      "replayed; recovered {} bytes\n",
      result.injected.chunks_dropped_at_sender, result.injected.chunks_dropped_at_receiver,
      result.injected.chunks_delayed, result.injected.chunks_reordered,
      result.injected.chunks_duplicated, result.injected.chunks_corrupted, frames,
      result.losses.size(), result.path_losses, result.replayed, result.recovered_bytes);
  return result.report.verdict;
}

}  // namespace

void add_sim_swarm_command(CLI::App& sim, int& exit_code) {
  CLI::App* command = sim.add_subcommand(
      "swarm", "Run scenarios with faults drawn from seeds, and shrink the first that fails");
  const auto options = std::make_shared<SimSwarmOptions>();
  command->add_option("--seeds", options->seeds, "Seeds: a range such as 1..1000, or one seed");
  command
      ->add_option("--ranks,-p", options->draws.ranks, "Ranks of every scenario (default: drawn)")
      ->check(CLI::Range(1u, 1024u));
  command->add_flag("!--no-deaths", options->draws.deaths, "Run without deaths of hosts");
  const std::map<std::string, device::sim::ConnectionKind> kinds{
      {"nic", device::sim::ConnectionKind::nic},
      {"software", device::sim::ConnectionKind::software}};
  command
      ->add_option("--connections", options->draws.connections,
                   "Reliable connections of every scenario: nic or software (default: drawn)")
      ->transform(CLI::CheckedTransformer(kinds));
  command->add_option("--jobs,-j", options->jobs, "Threads (default: one per core)")
      ->check(CLI::Range(1u, 256u));
  command->add_flag("--no-shrink", options->no_shrink, "Do not shrink a failing scenario");
  command->add_option("--output,-o", options->output, "Write the shrunk scenario to this file");
  command->callback([options, &exit_code] {
    if (Status status = swarm(*options); !status) exit_code = complain("sim swarm", status);
  });
}

void add_sim_replay_command(CLI::App& sim, int& exit_code) {
  CLI::App* command = sim.add_subcommand("replay", "Run a scenario from a file");
  const auto file = std::make_shared<std::string>();
  command->add_option("file", *file, "File with the scenario")
      ->required()
      ->check(CLI::ExistingFile);
  command->callback([file, &exit_code] {
    if (Status status = replay(*file); !status) exit_code = complain("sim replay", status);
  });
}

}  // namespace tutti::app
