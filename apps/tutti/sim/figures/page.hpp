// The report: one HTML file without other resources, light or dark as the reader's system.
#pragma once

#include <string>
#include <vector>

namespace tutti::app {

/// A figure or table of [Khalilov24] beside ours.
struct FigureSection {
  std::string id;        ///< "fig-2"
  std::string title;     ///< subject of the figure
  std::string source;    ///< value of the paper, plain text
  std::string ours;      ///< our value, plain text
  std::string why;       ///< reason for a difference, plain text
  std::string pictures;  ///< HTML of draw_chart and draw_table
  std::string command;   ///< command that shows the values of the figure
};

/// Writes the whole document. `about` describes the run.
std::string write_page(const std::string& about, const std::vector<FigureSection>& sections);

}  // namespace tutti::app
