// Draws small charts as SVG text: lines, dots and bars with axes. Colours are CSS classes of the
// page, which switches between light and dark. A plotting library would bring its own colours and
// fonts and a second language for two kinds of chart.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tutti::app {

enum class Scale : std::uint8_t { linear, log2, log10 };
/// The number format of an axis.
enum class Unit : std::uint8_t { number, bytes, percent };

struct ChartPoint {
  double x = 0;
  double y = 0;
};

struct ChartSeries {
  std::string name;
  std::vector<ChartPoint> points;
  /// Whether the values are the paper's, which are drawn with dashed lines and open dots.
  bool of_source = false;
  bool dots_only = false;
};

struct ChartAxis {
  std::string label;
  Scale scale = Scale::linear;
  Unit unit = Unit::number;
  bool from_zero = true;  ///< whether a linear axis starts at zero
};

struct LineChart {
  ChartAxis x;
  ChartAxis y;
  std::vector<ChartSeries> series;
};

/// Groups of bars, each with one bar per series.
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

/// Draws a chart as <svg> with its legend, in HTML.
std::string draw_chart(const LineChart& chart);
std::string draw_chart(const BarChart& chart);

/// Draws a table in HTML, whose header is the first row.
std::string draw_table(const std::vector<std::vector<std::string>>& rows);

/// A value in the number format of an axis, such as "64 KiB", "2.5" or "12 %".
std::string write_number(double value, Unit unit);

}  // namespace tutti::app
