// `tutti aggregator`: a process at the switch that reduces for the jobs that ask it to.
#pragma once

#include <CLI/App.hpp>

namespace tutti::app {

/// Registers the subcommand; its run puts the status into `exit_code`, which must outlive `app`'s
/// parsing.
void add_aggregator_command(CLI::App& app, int& exit_code);

}  // namespace tutti::app
