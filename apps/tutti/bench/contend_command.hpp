// `tutti contend`: Tutti as one of the programs that bench/peers/compare.py measures side by side.
#pragma once

#include <CLI/App.hpp>

namespace tutti::app {

/// Registers the subcommand; its run puts the status into `exit_code`, which must outlive `app`'s
/// parsing.
void add_contend_command(CLI::App& app, int& exit_code);

}  // namespace tutti::app
