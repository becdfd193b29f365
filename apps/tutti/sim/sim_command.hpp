// `tutti sim`: runs the library's own protocol on a simulated network from the command line.
#pragma once

#include <CLI/App.hpp>

namespace tutti::app {

/// Adds `sim run`, `sim traffic`, `sim datapath`, `sim offload`, `sim sort`, `sim figures`, `sim
/// swarm` and `sim replay`. A failure sets `exit_code`.
void add_sim_command(CLI::App& app, int& exit_code);

/// Adds one subcommand to `tutti sim`.
void add_sim_run_command(CLI::App& sim, int& exit_code);
void add_sim_traffic_command(CLI::App& sim, int& exit_code);
void add_sim_datapath_command(CLI::App& sim, int& exit_code);
void add_sim_offload_command(CLI::App& sim, int& exit_code);
void add_sim_sort_command(CLI::App& sim, int& exit_code);
void add_sim_figures_command(CLI::App& sim, int& exit_code);
void add_sim_swarm_command(CLI::App& sim, int& exit_code);
void add_sim_replay_command(CLI::App& sim, int& exit_code);

}  // namespace tutti::app
