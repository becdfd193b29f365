#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "exit_status.hpp"
#include "output_file.hpp"
#include "sim/figures/figures.hpp"
#include "sim/network_options.hpp"
#include "sim/sim_command.hpp"

namespace tutti::app {
namespace {

constexpr std::array<FigureRecipe, 12> kRecipes{{
    {"fig-2", link_traffic_model},
    {"fig-5", one_core},
    {"fig-7", bitmap_sizes},
    {"fig-10", critical_path},
    {"fig-11", throughput_at_scale},
    {"fig-12", switch_traffic},
    {"fig-13", thread_scaling},
    {"fig-14", thread_scaling_wide},
    {"fig-15", message_sizes},
    {"fig-16", chunk_rate},
    {"table-1", single_thread},
    {"appendix-b", both_collectives},
}};

struct SimFiguresOptions {
  FigureOptions figures;
  std::string output = "tutti-figures.html";
  std::vector<std::string> only;
};

bool wanted(const SimFiguresOptions& options, std::string_view id) {
  if (options.only.empty()) return true;
  return std::find(options.only.begin(), options.only.end(), id) != options.only.end();
}

Status run(const SimFiguresOptions& options) {
  const bool terminal = ::isatty(2) == 1;
  std::vector<FigureSection> sections;
  for (const FigureRecipe& recipe : kRecipes) {
    if (!wanted(options, recipe.id)) continue;
    if (terminal) fmt::print(stderr, "\r\033[K{} ...", recipe.id);
    const double before = processor_seconds();
    auto section = recipe.make(options.figures);
    if (!section) return section.status();
    if (terminal) fmt::print(stderr, "\r\033[K");
    fmt::print("{:<11} {:6.1f} s  {}\n", recipe.id, processor_seconds() - before, section->ours);
    std::fflush(stdout);
    sections.push_back(std::move(*section));
  }
  const char* extent =
      options.figures.quick
          ? "Fewer ranks and sizes than the full report: run without --quick for that. "
          : "";
  const std::string about = fmt::format(
      "Simulated packet by packet on this machine, with the library's own protocol in figures "
      "about the protocol. {}Dashed lines and open marks are values of the paper: those that its "
      "text and tables print, because its plots are not published as numbers. Paper: Khalilov, Di "
      "Girolamo, Chrapek, Nudelman, Bloch, Hoefler: Network-Offloaded Bandwidth-Optimal Broadcast "
      "and Allgather for Distributed AI, SC 2024.",
      extent);
  std::ofstream out(options.output);
  out << write_page(about, sections);
  out.close();
  if (!out) return cannot_write("--output", options.output, Code::invalid_argument);
  fmt::print("written: {}\n", options.output);
  return {};
}

}  // namespace

void add_sim_figures_command(CLI::App& sim, int& exit_code) {
  CLI::App* command = sim.add_subcommand(
      "figures", "Reproduce the figures of Khalilov et al. 2024 beside theirs in one HTML file");
  const auto options = std::make_shared<SimFiguresOptions>();
  std::vector<std::string> names;
  for (const FigureRecipe& recipe : kRecipes) names.emplace_back(recipe.id);
  command->add_flag("--quick", options->figures.quick,
                    "Use fewer ranks and sizes, for a run of a minute");
  command->add_option("--only", options->only, "Figures to draw, a list (default: all)")
      ->delimiter(',')
      ->check(CLI::IsMember(names));
  command->add_option("--output,-o", options->output, "Output file")->capture_default_str();
  command->callback([options, &exit_code] {
    if (Status status = run(*options); !status) exit_code = complain("sim figures", status);
  });
}

}  // namespace tutti::app
