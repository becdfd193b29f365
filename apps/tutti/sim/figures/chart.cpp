#include "sim/figures/chart.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "markup.hpp"

namespace tutti::app {
namespace {

constexpr double kWidth = 640;
constexpr double kHeight = 320;
constexpr double kLeft = 72;
constexpr double kRight = 16;
constexpr double kTop = 12;
constexpr double kBottom = 48;
constexpr int kColours = 8;

/// One axis of a drawing: maps values to coordinates.
class Ruler {
 public:
  Ruler(const ChartAxis& axis, double low, double high, double from, double to)
      : axis_(axis), from_(from), to_(to) {
    if (axis.scale == Scale::linear) {
      low_ = axis.from_zero ? std::min(low, 0.0) : low;
      step_ = nice(std::max(high - low_, 1e-12) / 5);
      low_ = std::floor(low_ / step_) * step_;
      high_ = std::max(std::ceil(high / step_ - 1e-9), 1 + low_ / step_) * step_;
      return;
    }
    low_ = std::floor(log(low) + 1e-9);
    high_ = std::max(std::ceil(log(high) - 1e-9), low_ + 1);
    step_ = std::max(1.0, std::ceil((high_ - low_) / 9));
  }

  double place(double value) const {
    const double at = axis_.scale == Scale::linear ? value : log(value);
    return from_ + (at - low_) / (high_ - low_) * (to_ - from_);
  }
  std::vector<double> ticks() const {
    std::vector<double> ticks;
    for (double at = low_; at <= high_ + step_ * 1e-6; at += step_) {
      ticks.push_back(
          axis_.scale == Scale::linear ? at : std::pow(axis_.scale == Scale::log2 ? 2 : 10, at));
    }
    return ticks;
  }

 private:
  double log(double value) const {
    return axis_.scale == Scale::log2 ? std::log2(value) : std::log10(value);
  }
  static double nice(double step) {
    const double power = std::pow(10, std::floor(std::log10(step)));
    for (const double digit : {1.0, 2.0, 5.0}) {
      if (step <= digit * power * 1.0001) return digit * power;
    }
    return 10 * power;
  }

  const ChartAxis& axis_;
  double from_;
  double to_;
  double low_ = 0;
  double high_ = 1;
  double step_ = 1;
};

struct Extent {
  double low = HUGE_VAL;
  double high = -HUGE_VAL;
  void take(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
};

std::string begin_svg(const std::string& label) {
  return fmt::format(
      "<figure class=\"chart\"><svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">\n",
      kWidth, kHeight, escape(label));
}

std::string draw_y_axis(const ChartAxis& axis, const Ruler& ruler) {
  std::string svg;
  for (const double tick : ruler.ticks()) {
    const double y = ruler.place(tick);
    svg += fmt::format(
        "<line class=\"grid\" x1=\"{}\" x2=\"{}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>"
        "<text class=\"tick\" x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n",
        kLeft, kWidth - kRight, y, y, kLeft - 6, y + 4, write_number(tick, axis.unit));
  }
  return svg + fmt::format(
                   "<text class=\"label\" transform=\"translate(14 {:.1f}) rotate(-90)\" "
                   "text-anchor=\"middle\">{}</text>\n",
                   (kTop + kHeight - kBottom) / 2, escape(axis.label));
}

std::string draw_x_axis(const ChartAxis& axis, const Ruler& ruler) {
  std::string svg;
  for (const double tick : ruler.ticks()) {
    svg +=
        fmt::format("<text class=\"tick\" x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n",
                    ruler.place(tick), kHeight - kBottom + 17, write_number(tick, axis.unit));
  }
  return svg + fmt::format(
                   "<text class=\"label\" x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}"
                   "</text>\n",
                   (kLeft + kWidth - kRight) / 2, kHeight - 8, escape(axis.label));
}

std::string legend_entry(std::size_t number, const std::string& name, bool of_source) {
  return fmt::format("<li><i class=\"s{}{}\"></i>{}</li>", number % kColours,
                     of_source ? " source" : "", escape(name));
}

std::string draw_series(const ChartSeries& series, std::size_t number, const Ruler& x,
                        const Ruler& y) {
  std::string path;
  std::string dots;
  for (const ChartPoint& point : series.points) {
    const double px = x.place(point.x);
    const double py = y.place(point.y);
    path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", px, py);
    dots +=
        fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.2\"><title>{}</title></circle>", px,
                    py, escape(fmt::format("{}: {:.4g}, {:.4g}", series.name, point.x, point.y)));
  }
  if (series.dots_only) path.clear();
  return fmt::format("<g class=\"s{}{}\"><path d=\"{}\"/>{}</g>\n", number % kColours,
                     series.of_source ? " source" : "", path, dots);
}

}  // namespace

std::string write_number(double value, Unit unit) {
  if (unit == Unit::percent) return fmt::format("{:.3g} %", value);
  if (unit == Unit::number) {
    if (std::abs(value) >= 1e9) return fmt::format("{:.4g} G", value / 1e9);
    if (std::abs(value) >= 1e6) return fmt::format("{:.4g} M", value / 1e6);
    if (std::abs(value) >= 1e4) return fmt::format("{:.4g} k", value / 1e3);
    return fmt::format("{:.4g}", value);
  }
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  std::size_t unit_at = 0;
  for (; value >= 1024 && unit_at + 1 < std::size(kUnits); ++unit_at) value /= 1024;
  return fmt::format("{:.4g} {}", value, kUnits[unit_at]);
}

std::string draw_chart(const LineChart& chart) {
  Extent x;
  Extent y;
  for (const ChartSeries& series : chart.series) {
    for (const ChartPoint& point : series.points) {
      x.take(point.x);
      y.take(point.y);
    }
  }
  if (x.low > x.high) return "<p>Nothing was measured.</p>\n";
  const Ruler across(chart.x, x.low, x.high, kLeft, kWidth - kRight);
  const Ruler up(chart.y, y.low, y.high, kHeight - kBottom, kTop);
  std::string html = begin_svg(chart.y.label + " over " + chart.x.label);
  html += draw_y_axis(chart.y, up) + draw_x_axis(chart.x, across);
  std::string legend;
  for (std::size_t i = 0; i < chart.series.size(); ++i) {
    html += draw_series(chart.series[i], i, across, up);
    legend += legend_entry(i, chart.series[i].name, chart.series[i].of_source);
  }
  return html + "</svg><ul class=\"legend\">" + legend + "</ul></figure>\n";
}

std::string draw_chart(const BarChart& chart) {
  Extent y;
  y.take(0);
  for (const BarChart::Bars& bars : chart.bars) {
    for (const double value : bars.values) y.take(value);
  }
  const Ruler up(chart.y, y.low, y.high, kHeight - kBottom, kTop);
  std::string html = begin_svg(chart.y.label) + draw_y_axis(chart.y, up);
  const double group = (kWidth - kLeft - kRight) / static_cast<double>(chart.groups.size());
  const double bar = group * 0.8 / static_cast<double>(chart.bars.size());
  for (std::size_t g = 0; g < chart.groups.size(); ++g) {
    const double left = kLeft + group * static_cast<double>(g);
    html +=
        fmt::format("<text class=\"tick\" x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n",
                    left + group / 2, kHeight - kBottom + 17, escape(chart.groups[g]));
    for (std::size_t b = 0; b < chart.bars.size(); ++b) {
      if (g >= chart.bars[b].values.size()) continue;
      const double value = chart.bars[b].values[g];
      const double top = up.place(value);
      html += fmt::format(
          "<g class=\"s{}{}\"><rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\">"
          "<title>{}</title></rect></g>\n",
          b % kColours, chart.bars[b].of_source ? " source" : "",
          left + group * 0.1 + bar * static_cast<double>(b), top, bar * 0.92, up.place(0) - top,
          escape(fmt::format("{}, {}: {:.4g}", chart.groups[g], chart.bars[b].name, value)));
    }
  }
  std::string legend;
  for (std::size_t b = 0; b < chart.bars.size(); ++b) {
    legend += legend_entry(b, chart.bars[b].name, chart.bars[b].of_source);
  }
  return html + "</svg><ul class=\"legend\">" + legend + "</ul></figure>\n";
}

std::string draw_table(const std::vector<std::vector<std::string>>& rows) {
  std::string html = "<div class=\"table\"><table>\n";
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const char* cell = r == 0 ? "th" : "td";
    html += "<tr>";
    for (const std::string& text : rows[r]) {
      html += fmt::format("<{}>{}</{}>", cell, escape(text), cell);
    }
    html += "</tr>\n";
  }
  return html + "</table></div>\n";
}

}  // namespace tutti::app
