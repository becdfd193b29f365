// `tutti lab`: labs from the command line.
#pragma once

#include <CLI/CLI.hpp>

namespace tutti::lab {

/// Adds the command "lab" with its sub-commands to the application. Running one sets exit_code,
/// which must live as long as the application parses.
void add_lab_command(CLI::App& app, int& exit_code);

}  // namespace tutti::lab
