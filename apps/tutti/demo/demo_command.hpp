// `tutti demo`: runs collectives by multicast and by the ring, on this host and in a lab, and
// compares time and traffic.
#pragma once

#include <CLI/App.hpp>

namespace tutti::app {

/// Registers the subcommand. Running the subcommand sets `exit_code`, which must outlive the
/// parsing of `app`. If this host cannot run a part of the demonstration, the output says so and
/// the exit code stays 0.
void add_demo_command(CLI::App& app, int& exit_code);

}  // namespace tutti::app
