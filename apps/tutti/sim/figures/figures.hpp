// The figures of [Khalilov24], each reproduced: the paper's value, our value, and the reason for a
// difference.
#pragma once

#include <span>
#include <string_view>

#include "sim/figures/page.hpp"
#include "tutti/status.hpp"

namespace tutti::app {

struct FigureOptions {
  bool quick = false;  ///< whether to use fewer sizes and ranks, for a run of a minute
};

/// The name of a figure and the function that makes it.
struct FigureRecipe {
  std::string_view id;
  Result<FigureSection> (*make)(const FigureOptions& options);
};

Result<FigureSection> link_traffic_model(const FigureOptions& options);   // fig. 2
Result<FigureSection> switch_traffic(const FigureOptions& options);       // fig. 12
Result<FigureSection> both_collectives(const FigureOptions& options);     // appendix B
Result<FigureSection> bitmap_sizes(const FigureOptions& options);         // fig. 7
Result<FigureSection> critical_path(const FigureOptions& options);        // fig. 10
Result<FigureSection> throughput_at_scale(const FigureOptions& options);  // fig. 11
Result<FigureSection> one_core(const FigureOptions& options);             // fig. 5
Result<FigureSection> thread_scaling(const FigureOptions& options);       // fig. 13
Result<FigureSection> thread_scaling_wide(const FigureOptions& options);  // fig. 14
Result<FigureSection> message_sizes(const FigureOptions& options);        // fig. 15
Result<FigureSection> chunk_rate(const FigureOptions& options);           // fig. 16
Result<FigureSection> single_thread(const FigureOptions& options);        // table I

}  // namespace tutti::app
