#include "sim/sim_command.hpp"

namespace tutti::app {

void add_sim_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "sim", "Simulate collectives on a network: time, traffic, and tests with faults");
  command->require_subcommand(1);
  add_sim_run_command(*command, exit_code);
  add_sim_traffic_command(*command, exit_code);
  add_sim_datapath_command(*command, exit_code);
  add_sim_offload_command(*command, exit_code);
  add_sim_sort_command(*command, exit_code);
  add_sim_figures_command(*command, exit_code);
  add_sim_swarm_command(*command, exit_code);
  add_sim_replay_command(*command, exit_code);
}

}  // namespace tutti::app
