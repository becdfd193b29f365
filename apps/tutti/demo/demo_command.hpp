// `tutti demo`: compares multicast with a ring on real data, on this host and in a lab.
#pragma once

#include <CLI/App.hpp>

namespace tutti::app {

/// Registers the subcommand. Its run sets `exit_code`, which must outlive the parsing of `app`. A
/// part that this host cannot run is named and is not a failure.
void add_demo_command(CLI::App& app, int& exit_code);

}  // namespace tutti::app
