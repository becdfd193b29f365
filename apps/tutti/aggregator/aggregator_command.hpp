// `tutti aggregator`: a process at the switch that reduces for jobs on request.
#pragma once

#include <CLI/App.hpp>

namespace tutti::app {

/// Registers the subcommand. Its run sets `exit_code`, which must outlive the parsing of `app`.
void add_aggregator_command(CLI::App& app, int& exit_code);

}  // namespace tutti::app
