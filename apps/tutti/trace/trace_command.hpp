// `tutti trace`: merges the trace files that ranks write if TUTTI_TRACE is set.
#pragma once

#include <CLI/App.hpp>

namespace tutti::app {

void add_trace_command(CLI::App& app, int& exit_code);

}  // namespace tutti::app
