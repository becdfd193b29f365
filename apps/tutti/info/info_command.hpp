// `tutti info`: what this host can do for Tutti, what is wrong with it, and a self-test.
#pragma once

#include <CLI/App.hpp>

namespace tutti::app {

/// Registers the subcommand; its run puts the status into `exit_code`, which must outlive `app`'s
/// parsing. The status is not 0 where the self-test fails.
void add_info_command(CLI::App& app, int& exit_code);

}  // namespace tutti::app
