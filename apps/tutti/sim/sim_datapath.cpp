#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "exit_status.hpp"
#include "lab/options.hpp"
#include "sim/network_options.hpp"
#include "sim/sim_command.hpp"
#include "size_text.hpp"
#include "studies/smartnic/datapath_run.hpp"

namespace tutti::app {
namespace {

using simulation::DatapathReport;
using simulation::DatapathSpec;

struct SimDatapathOptions {
  DatapathSpec spec;
  std::string transport = "uc";
  std::string buffer = "8M";
  std::string rate = "200gbit";
  std::vector<std::uint32_t> threads{1, 2, 4, 8, 16};
  bool json = false;
};

// Number of bytes in a gigabyte, as the program of [Khalilov24] counts them.
constexpr double kGigabyte = 1e9;

nlohmann::json to_json(const DatapathSpec& spec, const DatapathReport& report) {
  return {{"transport", spec.staging ? "ud" : "uc"},
          {"threads", spec.threads},
          {"chunk_bytes", spec.chunk_bytes},
          {"buffer_bytes", spec.buffer_bytes},
          {"gigabytes_per_second", report.bytes_per_second / kGigabyte},
          {"completions_per_second", report.completions_per_second},
          {"cycles_per_completion", report.cycles_per_completion},
          {"link_gigabytes_per_second", link_bytes_per_second(spec) / kGigabyte},
          {"instructions_per_completion", work_of(spec).instructions},
          {"printed_cycles", work_of(spec).printed_cycles},
          {"assumed_cycles", work_of(spec).cycles},
          {"operation_cost_us", sim::to_microseconds(spec.operation_cost)},
          {"completions", report.completions},
          {"chunks_missing", report.chunks_missing},
          {"wrong_bytes", report.wrong_bytes},
          {"most_staged_chunks", report.most_staged},
          {"time_us", sim::to_microseconds(report.time)},
          {"digest", fmt::format("{:016x}", report.digest)}};
}

Status complete(SimDatapathOptions& options) {
  const auto buffer = parse_size_of("--buffer", options.buffer);
  if (!buffer) return buffer.status();
  const auto rate = lab::parse_rate(options.rate);
  if (!rate) return rate.status();
  options.spec.buffer_bytes = *buffer;
  options.spec.link_bits_per_second = *rate;
  options.spec.staging = options.transport == "ud";
  return {};
}

Status run(SimDatapathOptions& options) {
  if (Status status = complete(options); !status) return status;
  DatapathSpec& spec = options.spec;
  nlohmann::json rows = nlohmann::json::array();
  if (!options.json) {
    fmt::print("{} of {} bytes in chunks of {}: the link carries {:.2f} GB/s of payload\n\n",
               options.transport, spec.buffer_bytes, spec.chunk_bytes,
               link_bytes_per_second(spec) / kGigabyte);
    fmt::print("  {:>7} {:>8} {:>16} {:>18}\n", "threads", "GB/s", "completions/s",
               "cycles/completion");
  }
  for (const std::uint32_t threads : options.threads) {
    spec.threads = threads;
    const auto report = simulation::run_datapath(spec);
    if (!report) return report.status();
    if (report->wrong_bytes + report->chunks_missing > 0) {
      return Status(Code::internal,
                    fmt::format("the run with {} threads has {} wrong bytes and {} missing chunks: "
                                "report this as a defect",
                                threads, report->wrong_bytes, report->chunks_missing));
    }
    rows.push_back(to_json(spec, *report));
    if (options.json) continue;
    fmt::print("  {:>7} {:>8.2f} {:>14.2f} M {:>18.0f}\n", threads,
               report->bytes_per_second / kGigabyte, report->completions_per_second / 1e6,
               report->cycles_per_completion);
  }
  if (options.json) fmt::print("{}\n", rows.dump(1));
  return {};
}

}  // namespace

void add_sim_datapath_command(CLI::App& sim, int& exit_code) {
  CLI::App* command = sim.add_subcommand(
      "datapath",
      "Simulate the receive datapath on the threads of a network interface, with a time model");
  const auto options = std::make_shared<SimDatapathOptions>();
  command
      ->add_option("transport", options->transport,
                   "uc: chunks arrive straight in the buffer; ud: chunks are copied from staging")
      ->check(CLI::IsMember({"uc", "ud"}));
  command->add_option("--threads,-t", options->threads, "Numbers of threads, a list")
      ->delimiter(',');
  command
      ->add_option("--chunk-bytes", options->spec.chunk_bytes,
                   "Bytes of a chunk, for which there is one completion")
      ->check(CLI::Range(64u, 1u << 20));
  command->add_option("--buffer", options->buffer, "Bytes received in one operation");
  command->add_option("--rate", options->rate, "Rate of the link");
  command
      ->add_option("--window", options->spec.window_chunks,
                   "Number of chunks that each thread has posted")
      ->check(CLI::Range(1u, 8192u));
  command->add_option("--seed", options->spec.seed, "Seed of all random choices");
  command->add_flag("--json", options->json, "Print JSON");
  command->callback([options, &exit_code] {
    if (Status status = run(*options); !status) exit_code = complain("sim datapath", status);
  });
}

}  // namespace tutti::app
