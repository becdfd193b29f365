// `tutti info`: shows the capabilities and problems of this host and runs a self-test.
#pragma once

#include <CLI/App.hpp>

namespace tutti::app {

/// Registers the subcommand. Running the subcommand sets `exit_code`, which must outlive the
/// parsing of `app`; a failed self-test makes it nonzero.
void add_info_command(CLI::App& app, int& exit_code);

}  // namespace tutti::app
