// `tutti demo`: real data by multicast beside the same exchange by a ring, on this host and in a
// lab.
#pragma once

#include <CLI/App.hpp>

namespace tutti::app {

/// Registers the subcommand; its run puts the status into `exit_code`, which must outlive `app`'s
/// parsing. A part that this host cannot do is named and is no failure.
void add_demo_command(CLI::App& app, int& exit_code);

}  // namespace tutti::app
