// `tutti bench`: one rank of a job that times collectives and checks their results.
#pragma once

#include <CLI/App.hpp>

namespace tutti::app {

/// Registers the subcommand. Running the subcommand sets `exit_code`, which must outlive the
/// parsing of `app`.
void add_bench_command(CLI::App& app, int& exit_code);

}  // namespace tutti::app
