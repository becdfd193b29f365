// Reproduces the figures of [Khalilov24] in the simulator. Each figure shows the paper's value, the
// value of this program, and the reason if they differ.
#pragma once

#include <span>
#include <string_view>

#include "sim/figures/page.hpp"
#include "tutti/status.hpp"

namespace tutti::app {

struct FigureOptions {
  /// Whether fewer sizes and ranks are simulated, so that a run takes about a minute.
  bool quick = false;
};

/// The name of a figure and the function that reproduces the figure.
struct FigureRecipe {
  std::string_view id;
  Result<FigureSection> (*make)(const FigureOptions& options);
};

Result<FigureSection> link_traffic_model(const FigureOptions& options);   // [Khalilov24] fig. 2
Result<FigureSection> switch_traffic(const FigureOptions& options);       // [Khalilov24] fig. 12
Result<FigureSection> both_collectives(const FigureOptions& options);     // [Khalilov24] appendix B
Result<FigureSection> bitmap_sizes(const FigureOptions& options);         // [Khalilov24] fig. 7
Result<FigureSection> critical_path(const FigureOptions& options);        // [Khalilov24] fig. 10
Result<FigureSection> throughput_at_scale(const FigureOptions& options);  // [Khalilov24] fig. 11
Result<FigureSection> one_core(const FigureOptions& options);             // [Khalilov24] fig. 5
Result<FigureSection> thread_scaling(const FigureOptions& options);       // [Khalilov24] fig. 13
Result<FigureSection> thread_scaling_wide(const FigureOptions& options);  // [Khalilov24] fig. 14
Result<FigureSection> message_sizes(const FigureOptions& options);        // [Khalilov24] fig. 15
Result<FigureSection> chunk_rate(const FigureOptions& options);           // [Khalilov24] fig. 16
Result<FigureSection> single_thread(const FigureOptions& options);        // [Khalilov24] table I

}  // namespace tutti::app
