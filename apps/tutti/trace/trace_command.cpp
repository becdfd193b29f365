#include "trace/trace_command.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <fstream>
#include <memory>

#include "exit_status.hpp"
#include "microseconds.hpp"
#include "output_file.hpp"
#include "trace/merge.hpp"

namespace tutti::app {
namespace {

struct MergeOptions {
  std::string directory;
  std::string job;
  std::string output = "trace.json";
};

void print_summary(const MergedTrace& merged, const std::string& output) {
  fmt::print("{}: job {}, {} of {} ranks, {} spans, {} messages with both ends\n", output,
             merged.job, merged.size - merged.missing.size(), merged.size, merged.spans,
             merged.messages);
  if (!merged.missing.empty())
    fmt::print("no file of rank(s) {}: they ended without closing their communicator\n",
               fmt::join(merged.missing, ", "));
  if (merged.dropped > 0) fmt::print("{} spans were overwritten by later ones\n", merged.dropped);
  fmt::print("clocks: within {:.3f} us of each other when compared\n",
             microseconds(merged.clock_error));
  if (merged.earliest > merged.clock_error)
    fmt::print("but a message arrives {:.3f} us before its send: the clocks have drifted since\n",
               microseconds(merged.earliest));
}

Status merge(const MergeOptions& options) {
  const auto merged = merge_traces(options.directory, options.job);
  if (!merged) return merged.status();
  std::ofstream file(options.output);
  merged->trace.write(file);
  file.close();
  if (!file) return cannot_write("--output", options.output);
  print_summary(*merged, options.output);
  return {};
}

}  // namespace

void add_trace_command(CLI::App& app, int& exit_code) {
  CLI::App* trace = app.add_subcommand("trace", "Process the files written with TUTTI_TRACE");
  trace->require_subcommand(1);
  CLI::App* command = trace->add_subcommand(
      "merge", "Merge the files of all ranks into one for ui.perfetto.dev or chrome://tracing");
  const auto options = std::make_shared<MergeOptions>();
  command->add_option("directory", options->directory, "Directory that TUTTI_TRACE named")
      ->required();
  command->add_option("-o,--output", options->output, "Output file")->capture_default_str();
  command->add_option("--job", options->job, "Job to merge, if the directory has several");
  command->callback([options, &exit_code] {
    if (Status status = merge(*options); !status) exit_code = complain("trace merge", status);
  });
}

}  // namespace tutti::app
