// `tutti demo`: compares multicast with a ring on real data, on this host and in a lab.
#pragma once

#include <CLI/App.hpp>

namespace tutti::app {

/// Registers the subcommand. Running the subcommand sets `exit_code`, which must outlive the
/// parsing of `app`; a part that this host cannot run is named and does not count as a failure.
void add_demo_command(CLI::App& app, int& exit_code);

}  // namespace tutti::app
