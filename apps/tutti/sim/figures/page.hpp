// Writes the report on all figures as a single HTML file that loads no other file. The page follows
// the light or dark style of the reader's system.
#pragma once

#include <string>
#include <vector>

namespace tutti::app {

/// One figure or table of [Khalilov24] and its reproduction by this program.
struct FigureSection {
  std::string id;        ///< HTML anchor of the section, such as "fig-2"
  std::string title;     ///< heading of the section, which names figure and subject
  std::string source;    ///< result that the paper reports, as plain text
  std::string ours;      ///< result of this program, as plain text
  std::string why;       ///< reason why `source` and `ours` differ, as plain text
  std::string pictures;  ///< charts and tables as HTML, from draw_chart() and draw_table()
  std::string command;   ///< shell command that prints the values of the figure
};

/// The whole HTML document. `about` is its introduction, which describes the run.
std::string write_page(const std::string& about, const std::vector<FigureSection>& sections);

}  // namespace tutti::app
