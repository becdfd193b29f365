// Small charts as SVG text: lines, dots and bars with axes. Colours are CSS classes of the page
// they stand in, so that light and dark are the page's business. A plotting library would bring its
// own colours, fonts and a second language for what are two kinds of chart.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tutti::app {

enum class Scale : std::uint8_t { linear, log2, log10 };
/// How a number is written on an axis.
enum class Unit : std::uint8_t { number, bytes, percent };

struct ChartPoint {
  double x = 0;
  double y = 0;
};

struct ChartSeries {
  std::string name;
  std::vector<ChartPoint> points;
  bool of_source = false;  ///< drawn dashed, with open dots
  bool dots_only = false;
};

struct ChartAxis {
  std::string label;
  Scale scale = Scale::linear;
  Unit unit = Unit::number;
  bool from_zero = true;  ///< linear only
};

struct LineChart {
  ChartAxis x;
  ChartAxis y;
  std::vector<ChartSeries> series;
};

/// Groups of bars, one bar a series in each.
struct BarChart {
  ChartAxis y;
  std::vector<std::string> groups;
  struct Bars {
    std::string name;
    std::vector<double> values;  ///< by group
    bool of_source = false;
  };
  std::vector<Bars> bars;
};

/// An <svg> with its legend, as HTML.
std::string draw_chart(const LineChart& chart);
std::string draw_chart(const BarChart& chart);

/// A table; the first row is its head.
std::string draw_table(const std::vector<std::vector<std::string>>& rows);

/// "64 KiB"; "2.5"; "12 %".
std::string write_number(double value, Unit unit);

}  // namespace tutti::app
