#include "demo/demo_command.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.hpp"
#include "demo/demo_rank.hpp"
#include "device/ip/socket.hpp"
#include "exit_status.hpp"
#include "lab/lab.hpp"
#include "lab/runner.hpp"
#include "run.hpp"
#include "size_text.hpp"
#include "version.hpp"

namespace tutti::app {
namespace {

constexpr std::uint32_t kLoopbackRanks = 4;
constexpr int kLabHosts = 8;
constexpr std::uint64_t kLabRateBits = 1'000'000'000;
constexpr auto kPartTimeout = std::chrono::seconds(25);

constexpr DemoRankOptions kLoopback{.allgather_bytes = 1 << 20, .broadcast_bytes = 4 << 20};
constexpr DemoRankOptions kLab{
    .allgather_bytes = 256 << 10, .broadcast_bytes = 2 << 20, .link_bytes = true};

std::vector<std::string> rank_command(const DemoRankOptions& options) {
  std::vector<std::string> command{std::filesystem::read_symlink("/proc/self/exe").string(),
                                   "demo-rank",
                                   "--allgather-bytes",
                                   std::to_string(options.allgather_bytes),
                                   "--broadcast-bytes",
                                   std::to_string(options.broadcast_bytes),
                                   "--iterations",
                                   std::to_string(options.iterations),
                                   "--warmup",
                                   std::to_string(options.warmup)};
  if (options.link_bytes) command.push_back("--link-bytes");
  return command;
}

std::string read_all(int fd) {
  std::string all;
  char bytes[4096];
  ssize_t got = 0;
  while ((got = pread(fd, bytes, sizeof bytes, static_cast<off_t>(all.size()))) > 0) {
    all.append(bytes, static_cast<std::size_t>(got));
  }
  return all;
}

Result<nlohmann::json> parse_results(const std::string& text) {
  auto json = nlohmann::json::parse(text, nullptr, false);
  if (json.is_array() && !json.empty()) return json;
  return failure(Code::internal, "rank 0 of the demo printed no results: report this as a defect");
}

Result<nlohmann::json> run_on_loopback() {
  const device::Descriptor output(memfd_create("tutti-demo", MFD_CLOEXEC));
  if (!output.valid()) return system_failure(errno, "cannot make a file for the results");
  RunOptions options;
  options.count = kLoopbackRanks;
  options.program = rank_command(kLoopback);
  options.prefix = false;
  options.timeout = kPartTimeout;
  options.out_fd = output.get();
  if (const int status = run_command(options); status != 0) {
    return failure(Code::peer_failed, "a rank ended with exit status {}: see its message above",
                   status);
  }
  return parse_results(read_all(output.get()));
}

Result<nlohmann::json> run_in_lab() {
  lab::LabOptions lab_options;
  lab_options.hosts = kLabHosts;
  lab_options.rate_bits_per_second = kLabRateBits;
  auto lab = lab::Lab::create(lab_options);
  if (!lab) return lab.status();
  std::string output;
  lab::RunOptions options;
  options.arguments = rank_command(kLab);
  options.timeout_ms =
      static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(kPartTimeout).count());
  options.handle_signals = true;
  options.on_line = [&output](int rank, bool is_error, std::string_view line) {
    if (is_error) fmt::print(stderr, "[{}] {}\n", rank, line);
    if (!is_error && rank == 0) output.append(line);
  };
  const auto report = lab::run_ranks(*lab, options);
  if (!report) return report.status();
  if (report->exit_status != 0) {
    return failure(Code::peer_failed, "rank {} ended with exit status {}: see its message above",
                   report->first_failed, report->exit_status);
  }
  return parse_results(output);
}

std::string algorithm_of(const nlohmann::json& row) {
  if (row["algorithm"] == "multicast") return "multicast";
  return row["operation"] == "allgather" ? "ring" : "chain";
}

std::string kib(double bytes) { return fmt::format("{:.1f}", bytes / 1024); }

void print_results(const nlohmann::json& results, std::uint32_t ranks) {
  fmt::print("  {:<22} {:<10} {:>10} {:>18} {:>18}  {}\n", "", "by", "time (ms)", "KiB: max rank",
             "KiB: all ranks", "data");
  for (const auto& row : results) {
    const auto sent = row["sent_bytes_by_rank"].get<std::vector<double>>();
    double most = 0;
    double all = 0;
    for (const double bytes : sent) {
      most = std::max(most, bytes);
      all += bytes;
    }
    const std::uint64_t wrong = row["wrong_bytes"];
    const bool gather = row["operation"] == "allgather";
    const std::string what = fmt::format("{} {}{}", row["operation"].get<std::string>(),
                                         size_text(row["send_bytes"].get<std::uint64_t>()),
                                         gather ? fmt::format(" x {}", ranks) : "");
    fmt::print("  {:<22} {:<10} {:>10.2f} {:>18} {:>18}  {}\n", what, algorithm_of(row),
               row["p50_ns"].get<double>() / 1e6, kib(most), kib(all),
               wrong == 0 ? fmt::format("right, {} checked", row["checked"].get<int>())
                          : fmt::format("{} BYTES WRONG", wrong));
  }
}

/// Prints how many KiB each host's port sent and received during one collective.
void print_ports(const nlohmann::json& results) {
  fmt::print("\n  KiB at each port in one operation, up / down:\n  {:<6}", "host");
  for (const auto& row : results) {
    fmt::print(" {:>22}", row["operation"].get<std::string>() + " " + algorithm_of(row));
  }
  fmt::print("\n");
  const std::size_t hosts = results.front()["ports"].size();
  std::vector<double> totals(results.size());
  for (std::size_t host = 0; host < hosts; ++host) {
    fmt::print("  {:<6}", host);
    for (std::size_t i = 0; i < results.size(); ++i) {
      const double sent = results[i]["ports"][host]["sent"];
      const double received = results[i]["ports"][host]["received"];
      totals[i] += sent + received;
      fmt::print(" {:>22}", kib(sent) + " / " + kib(received));
    }
    fmt::print("\n");
  }
  fmt::print("  {:<6}", "all");
  for (const double total : totals) fmt::print(" {:>22}", kib(total));
  fmt::print("\n");
}

bool all_right(const nlohmann::json& results) {
  return std::all_of(results.begin(), results.end(),
                     [](const nlohmann::json& row) { return row["wrong_bytes"] == 0; });
}

int demonstrate_loopback() {
  fmt::print("1. {} processes on this host, over loopback; no privilege needed\n\n",
             kLoopbackRanks);
  std::fflush(stdout);
  const auto results = run_on_loopback();
  if (!results) return complain("demo", results.status());
  print_results(*results, kLoopbackRanks);
  fmt::print(
      "\n  KiB: handed to the network in one operation, by one rank and by all. By multicast a "
      "block is sent\n"
      "  once, whatever the number of ranks; from rank to rank, once for every other "
      "rank.\n\n");
  return all_right(*results) ? kExitOk : kExitFailed;
}

int demonstrate_lab() {
  fmt::print("2. {} hosts (network namespaces) on a switch, links of {:g} Gbit/s\n\n", kLabHosts,
             static_cast<double>(kLabRateBits) / 1e9);
  std::fflush(stdout);
  const lab::LabSupport support = lab::lab_support();
  for (const Status* needed : {&support.temporary, &support.shaping}) {
    if (needed->ok()) continue;
    fmt::print("   Left out: {}\n", needed->message());
    return kExitOk;
  }
  const auto results = run_in_lab();
  if (!results) return complain("demo", results.status());
  print_results(*results, kLabHosts);
  print_ports(*results);
  return all_right(*results) ? kExitOk : kExitFailed;
}

int run(bool with_lab) {
  fmt::print("tutti {}: the same exchanges by multicast and from rank to rank\n\n", version());
  const int on_loopback = demonstrate_loopback();
  const int in_lab = with_lab ? demonstrate_lab() : kExitOk;
  return std::max(on_loopback, in_lab);
}

}  // namespace

void add_demo_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "demo", "Compare multicast with a ring on real data, on this host and in a lab");
  const auto no_lab = std::make_shared<bool>(false);
  command->add_flag("--no-lab", *no_lab, "Run on this host only, without a lab");
  command->callback([no_lab, &exit_code] { exit_code = run(!*no_lab); });
  add_demo_rank_command(app, exit_code);
}

}  // namespace tutti::app
