// Writes the report as one HTML file without other resources, light or dark as the reader's system.
#pragma once

#include <string>
#include <vector>

namespace tutti::app {

/// One figure or table of [Khalilov24] with our reproduction.
struct FigureSection {
  std::string id;        ///< anchor of the section, such as "fig-2"
  std::string title;     ///< subject of the figure
  std::string source;    ///< paper's value, as plain text
  std::string ours;      ///< our value, as plain text
  std::string why;       ///< reason for a difference, as plain text
  std::string pictures;  ///< HTML of draw_chart() and draw_table()
  std::string command;   ///< command that prints the values of the figure
};

/// Writes the whole document. The text `about` describes the run.
std::string write_page(const std::string& about, const std::vector<FigureSection>& sections);

}  // namespace tutti::app
