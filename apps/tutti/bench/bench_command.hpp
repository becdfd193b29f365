// `tutti bench`: time and check collectives, as one process of a launched job.
#pragma once

#include <CLI/App.hpp>

namespace tutti::app {

/// Registers the subcommand; its run puts the status into `exit_code`, which must outlive `app`'s
/// parsing.
void add_bench_command(CLI::App& app, int& exit_code);

}  // namespace tutti::app
