// `tutti lab`: the subcommands that build, list, use and remove labs.
#pragma once

#include <CLI/CLI.hpp>

namespace tutti::lab {

/// Adds the command `lab` with its subcommands. Running a subcommand sets `exit_code`, which must
/// outlive the parsing of `app`.
void add_lab_command(CLI::App& app, int& exit_code);

}  // namespace tutti::lab
