// `tutti aggregator`: runs an aggregator, a process at the switch that computes reductions for
// jobs.
#pragma once

#include <CLI/App.hpp>

namespace tutti::app {

/// Registers the subcommand. Running the subcommand sets `exit_code`, which must outlive the
/// parsing of `app`.
void add_aggregator_command(CLI::App& app, int& exit_code);

}  // namespace tutti::app
