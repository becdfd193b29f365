// `tutti tune`: measures which algorithm is the quickest for what, on the ranks of a job, and
// writes a table that TUTTI_ALGORITHM_FILE reads (C7).
#pragma once

#include <CLI/App.hpp>

namespace tutti::app {

void add_tune_command(CLI::App& app, int& exit_code);

}  // namespace tutti::app
