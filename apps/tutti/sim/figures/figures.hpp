// Reproduces the figures of [Khalilov24]: each with the paper's value, our value, and the reason
// for a difference.
#pragma once

#include <span>
#include <string_view>

#include "sim/figures/page.hpp"
#include "tutti/status.hpp"

namespace tutti::app {

struct FigureOptions {
  bool quick = false;  ///< whether fewer sizes and ranks are used, for a run of a minute
};

/// A figure by name, with the function that makes it.
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
