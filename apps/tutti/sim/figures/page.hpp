// The report: one HTML file that needs nothing else, light or dark as the reader's system is.
#pragma once

#include <string>
#include <vector>

namespace tutti::app {

/// A figure or table of the source beside ours.
struct FigureSection {
  std::string id;        ///< "fig-2"
  std::string title;     ///< what the figure is about
  std::string source;    ///< what the source says, plain text
  std::string ours;      ///< what comes out here, plain text
  std::string why;       ///< why the two differ where they do, plain text
  std::string pictures;  ///< HTML of draw_chart and draw_table
  std::string command;   ///< that shows the figures by themselves
};

/// `about`: what was run, and how. The whole document.
std::string write_page(const std::string& about, const std::vector<FigureSection>& sections);

}  // namespace tutti::app
