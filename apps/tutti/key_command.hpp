// `tutti key new FILE`: makes a job key file.
#pragma once

#include <CLI/App.hpp>

namespace tutti::app {

/// Registers the subcommand. Running the subcommand sets `exit_code`, which must outlive the
/// parsing of `app`.
void add_key_command(CLI::App& app, int& exit_code);

}  // namespace tutti::app
