// `tutti tune`: measures the fastest algorithm for each collective and size on the ranks of a job
// and writes a table for TUTTI_ALGORITHM_FILE.
#pragma once

#include <CLI/App.hpp>

namespace tutti::app {

void add_tune_command(CLI::App& app, int& exit_code);

}  // namespace tutti::app
