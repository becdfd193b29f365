// `tutti sim`: runs Tutti's protocol and models of collectives on a simulated network.
#pragma once

#include <CLI/App.hpp>

namespace tutti::app {

/// Adds the command `sim` with its subcommands `run`, `traffic`, `datapath`, `offload`, `sort`,
/// `figures`, `swarm` and `replay`. A failure sets `exit_code`, which must outlive the parsing of
/// `app`.
void add_sim_command(CLI::App& app, int& exit_code);

/// Each function adds one subcommand to `tutti sim`.
void add_sim_run_command(CLI::App& sim, int& exit_code);
void add_sim_traffic_command(CLI::App& sim, int& exit_code);
void add_sim_datapath_command(CLI::App& sim, int& exit_code);
void add_sim_offload_command(CLI::App& sim, int& exit_code);
void add_sim_sort_command(CLI::App& sim, int& exit_code);
void add_sim_figures_command(CLI::App& sim, int& exit_code);
void add_sim_swarm_command(CLI::App& sim, int& exit_code);
void add_sim_replay_command(CLI::App& sim, int& exit_code);

}  // namespace tutti::app
