// `tutti trace`: processes the files written with TUTTI_TRACE.
#pragma once

#include <CLI/App.hpp>

namespace tutti::app {

void add_trace_command(CLI::App& app, int& exit_code);

}  // namespace tutti::app
