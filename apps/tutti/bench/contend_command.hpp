// `tutti contend`: runs Tutti as one of the programs that bench/peers/compare.py measures.
#pragma once

#include <CLI/App.hpp>

namespace tutti::app {

/// Registers the subcommand. Running the subcommand sets `exit_code`, which must outlive the
/// parsing of `app`.
void add_contend_command(CLI::App& app, int& exit_code);

}  // namespace tutti::app
