// Draws line charts and bar charts as SVG text. The colours are CSS classes of the page, so that
// charts follow its light or dark style; no plotting library is needed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tutti::app {

enum class Scale : std::uint8_t { linear, log2, log10 };
/// The format of the numbers on an axis.
enum class Unit : std::uint8_t { number, bytes, percent };

struct ChartPoint {
  double x = 0;
  double y = 0;
};

struct ChartSeries {
  std::string name;
  std::vector<ChartPoint> points;
  /// Whether the values come from [Khalilov24]; if so, lines are dashed and dots are open.
  bool of_source = false;
  bool dots_only = false;
};

struct ChartAxis {
  std::string label;
  Scale scale = Scale::linear;
  Unit unit = Unit::number;
  bool from_zero = true;  ///< whether a linear axis starts at 0 even if all values are larger
};

struct LineChart {
  ChartAxis x;
  ChartAxis y;
  std::vector<ChartSeries> series;
};

/// A bar chart with groups of bars; each series has one bar in every group.
struct BarChart {
  ChartAxis y;
  std::vector<std::string> groups;
  struct Bars {
    std::string name;
    std::vector<double> values;  ///< values of the series, indexed by group
    bool of_source = false;
  };
  std::vector<Bars> bars;
};

/// Draws a chart as HTML: an <svg> element and a legend.
std::string draw_chart(const LineChart& chart);
std::string draw_chart(const BarChart& chart);

/// Draws a table as HTML. The first row is the header.
std::string draw_table(const std::vector<std::vector<std::string>>& rows);

/// The value as text in the format of an axis, such as "64 KiB", "2.5" or "12 %".
std::string write_number(double value, Unit unit);

}  // namespace tutti::app
