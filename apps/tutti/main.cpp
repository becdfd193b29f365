// The program `tutti`: its subcommands and its exit status.
#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <string>

#include "aggregator/aggregator_command.hpp"
#include "bench/bench_command.hpp"
#include "bench/contend_command.hpp"
#include "demo/demo_command.hpp"
#include "exit_status.hpp"
#include "explain/explain_command.hpp"
#include "info/info_command.hpp"
#include "key_command.hpp"
#include "lab/lab_command.hpp"
#include "run.hpp"
#include "sim/sim_command.hpp"
#include "trace/trace_command.hpp"
#include "tune/tune_command.hpp"
#include "version.hpp"

namespace {

using namespace tutti::app;

/// The text of a CLI11 error, which names the argument.
std::string explain(const CLI::App& app, const CLI::ParseError& error) {
  const bool lacks = error.get_exit_code() == static_cast<int>(CLI::ExitCodes::RequiredError);
  // CLI11 would report an unknown word only as a missing subcommand, so the error is made here.
  const auto extras = app.remaining(true);
  if (lacks && !extras.empty())
    return "'" + extras.front() + "' is not a known argument: see --help";
  std::string text = error.what();
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

/// Prints the help or the version as CLI11 does, or the error as one line.
int end_parsing(const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success)) return app.exit(error);
  std::fprintf(stderr, "tutti: %s (see --help)\n", explain(app, error).c_str());
  return kExitUsage;
}

/// Opens a file in place of each standard stream that is closed, because another descriptor would
/// otherwise get its number and replace it in child processes. A write to it still fails.
void open_standard_streams() {
  int opened = 0;
  do {
    opened = ::open("/dev/null", O_RDONLY);
  } while (opened >= 0 && opened <= STDERR_FILENO);
  if (opened >= 0) ::close(opened);
}

}  // namespace

int main(int argc, char** argv) {
  open_standard_streams();
  CLI::App app(
      "Bandwidth-optimal collective communication over IP multicast: run, measure and "
      "explain it",
      "tutti");
  app.set_version_flag("--version", std::string("tutti ") + version());
  app.require_subcommand(1);
  int exit_code = kExitOk;
  add_run_command(app, exit_code);
  tutti::lab::add_lab_command(app, exit_code);
  add_demo_command(app, exit_code);
  add_info_command(app, exit_code);
  add_key_command(app, exit_code);
  add_explain_command(app, exit_code);
  add_bench_command(app, exit_code);
  add_contend_command(app, exit_code);
  add_sim_command(app, exit_code);
  add_aggregator_command(app, exit_code);
  add_trace_command(app, exit_code);
  add_tune_command(app, exit_code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return end_parsing(app, error);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tutti: %s\n", error.what());
    return kExitFailed;
  }
  return exit_code;
}
