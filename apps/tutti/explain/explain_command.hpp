// `tutti explain`: shows the algorithm that a collective would use, the reason for this choice, and
// the cost.
#pragma once

#include <CLI/App.hpp>

namespace tutti::app {

/// Registers the subcommand. Running the subcommand sets `exit_code`, which must outlive the
/// parsing of `app`.
void add_explain_command(CLI::App& app, int& exit_code);

}  // namespace tutti::app
