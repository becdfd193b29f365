// `tutti explain`: which algorithm would run, what it would do, and why.
#pragma once

#include <CLI/App.hpp>

namespace tutti::app {

/// Registers the subcommand; its run puts the status into `exit_code`, which must outlive `app`'s
/// parsing.
void add_explain_command(CLI::App& app, int& exit_code);

}  // namespace tutti::app
