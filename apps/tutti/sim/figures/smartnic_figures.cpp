// Reproduces the figures about receiving on the threads of a SmartNIC.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "sim/figures/chart.hpp"
#include "sim/figures/figures.hpp"
#include "studies/smartnic/datapath_run.hpp"
#include "studies/smartnic/nic_model.hpp"

namespace tutti::app {
namespace {

using simulation::DatapathReport;
using simulation::DatapathSpec;

// Number of bytes in a gigabyte, as the program of [Khalilov24] counts them.
constexpr double kGigabyte = 1e9;
constexpr double kLink = 200e9 / 8 / kGigabyte;

Result<DatapathReport> datapath(bool staging, std::uint32_t threads, std::uint32_t chunk = 4096,
                                std::uint64_t buffer = 8u << 20) {
  return simulation::run_datapath(
      {.staging = staging, .threads = threads, .chunk_bytes = chunk, .buffer_bytes = buffer});
}

const char* name_of(bool staging) { return staging ? "UD" : "UC"; }

double host_rate() { return sim::HostCore{}.bits_per_second(4096) / 8 / kGigabyte; }

Result<FigureSection> scaling(std::uint32_t most, FigureSection section) {
  LineChart chart{
      .x = {.label = "threads", .scale = Scale::log2}, .y = {.label = "GB/s"}, .series = {}};
  std::vector<std::vector<std::string>> table{{"threads"}};
  std::string reached;
  for (const bool staging : {false, true}) {
    ChartSeries series{.name = name_of(staging), .points = {}};
    table.push_back({series.name + ", GB/s"});
    table.push_back({series.name + ", cycles a completion"});
    for (std::uint32_t threads = 1; threads <= most; threads *= 2) {
      const auto report = datapath(staging, threads);
      if (!report) return report.status();
      const double rate = report->bytes_per_second / kGigabyte;
      series.points.push_back({static_cast<double>(threads), rate});
      table[table.size() - 2].push_back(fmt::format("{:.2f}", rate));
      table.back().push_back(fmt::format("{:.0f}", report->cycles_per_completion));
      if (!staging) table[0].push_back(fmt::format("{}", threads));
    }
    chart.series.push_back(series);
    const auto enough = simulation::threads_for_link({.staging = staging}, 0.97);
    if (!enough) return enough.status();
    reached += fmt::format("{} comes within 3 % of what the link carries with {} threads. ",
                           name_of(staging), *enough);
  }
  const auto edge = static_cast<double>(most);
  chart.series.push_back({.name = "paper, one thread",
                          .points = {{1, 11.9}, {1, 5.2}},
                          .of_source = true,
                          .dots_only = true});
  chart.series.push_back(
      {.name = "link, 200 Gbit/s", .points = {{1, kLink}, {edge, kLink}}, .of_source = true});
  chart.series.push_back(
      {.name = "one host core", .points = {{1, host_rate()}, {edge, host_rate()}}});
  section.ours = reached + section.ours;
  section.pictures = draw_chart(chart) + draw_table(table);
  return section;
}

}  // namespace

Result<FigureSection> one_core(const FigureOptions&) {
  std::vector<double> here{sim::HostCore{}.bits_per_second(4096) / 1e9};
  for (const bool staging : {true, false}) {
    const auto report = datapath(staging, 16);
    if (!report) return report.status();
    here.push_back(report->bytes_per_second * 8 / 1e9);
  }
  const double host_core = here[0];
  const double gain = here[1] / host_core;
  BarChart chart;
  chart.y.label = "Gbit/s, chunks of 4 KiB";
  chart.groups = {"one host core", "DPA core, UD", "DPA core, UC"};
  // Values of [Khalilov24]: a host core reaches half to two thirds of the link's rate; 7/12 is the
  // middle of this range.
  chart.bars.push_back({.name = "source", .values = {200.0 * 7 / 12, 200, 200}, .of_source = true});
  chart.bars.push_back({.name = "here", .values = std::move(here)});
  return FigureSection{
      .id = "fig-5",
      .title = "Fig. 5: one host core against one core of the interface, 200 Gbit/s",
      .source =
          "One host core handles half to two thirds of 200 Gbit/s in datagrams of 4 KiB; one "
          "DPA core of 16 threads reaches the link's throughput, 25 % more.",
      .ours = fmt::format("{:.0f} Gbit/s with a host core, {:.2f} times that with a DPA core (UD).",
                          host_core, gain),
      .why =
          "The host core is a model of two figures, 120 ns a completion and a copy at 25 GB/s, in "
          "the middle of the paper's range. The link of the paper carried less than headers "
          "leave of 200 Gbit/s, which is our limit.",
      .pictures = draw_chart(chart),
      .command = "tutti sim datapath ud -t 16"};
}

Result<FigureSection> thread_scaling(const FigureOptions&) {
  return scaling(
      16, {.id = "fig-13",
           .title = "Fig. 13: receive throughput over threads, 8 MiB, chunks of 4 KiB",
           .source = "UC reaches the link with 4 threads, UD with 8 to 16.",
           .ours = "Predicted from one thread's cycles; each thread runs the engine's receive "
                   "worker on real bytes.",
           .why = "Two UC threads at the printed 598 cycles handle 197 Gbit/s at best: short "
                  "of 200 Gbit/s, but within 3 % of the 196 that headers leave of such a "
                  "link. To keep up with 200 Gbit/s of payload it takes four.",
           .pictures = {},
           .command = "tutti sim datapath uc; tutti sim datapath ud"});
}

Result<FigureSection> thread_scaling_wide(const FigureOptions& options) {
  return scaling(
      options.quick ? 64 : 256,
      {.id = "fig-14",
       .title = "Fig. 14: receive throughput over threads, all cores, chunks of 4 KiB",
       .source = "Both stay at the practical link throughput with more threads.",
       .ours = "More threads than needed neither help nor hurt.",
       .why = "A block for each thread means fewer chunks for each: the last ones to end "
              "cost a little at 128 and 256.",
       .pictures = {},
       .command = "tutti sim datapath ud -t 1,2,4,8,16,32,64,128,256"});
}

Result<FigureSection> message_sizes(const FigureOptions&) {
  LineChart chart{
      .x = {.label = "bytes of a completion", .scale = Scale::log2, .unit = Unit::bytes},
      .y = {.label = "GB/s"},
      .series = {}};
  for (const std::uint32_t threads : {1u, 2u, 4u, 8u, 16u}) {
    ChartSeries series{.name = fmt::format("{} threads", threads), .points = {}};
    for (std::uint32_t chunk = 512; chunk <= (64u << 10); chunk *= 2) {
      const auto report = datapath(false, threads, chunk);
      if (!report) return report.status();
      series.points.push_back({static_cast<double>(chunk), report->bytes_per_second / kGigabyte});
    }
    chart.series.push_back(series);
  }
  const auto one = simulation::threads_for_link({.chunk_bytes = 16u << 10}, 0.97);
  if (!one) return one.status();
  return FigureSection{
      .id = "fig-15",
      .title = "Fig. 15: UC multicast of several packets a message, 8 MiB",
      .source = "With larger chunks the DPA sustains line rate with fewer threads.",
      .ours = fmt::format("From 16 KiB on {} thread is enough.", *one),
      .why =
          "A prediction: UC multicast does not exist in hardware, and the authors sent by one "
          "connection per thread. Below a packet's size headers and completions bound the rate.",
      .pictures = draw_chart(chart),
      .command = "tutti sim datapath uc --chunk-bytes 16384 -t 1,2,4"};
}

Result<FigureSection> chunk_rate(const FigureOptions& options) {
  constexpr double kNeeded = 1.6e12 / 8 / 4096;
  LineChart chart{.x = {.label = "threads", .scale = Scale::log2},
                  .y = {.label = "chunks a second"},
                  .series = {}};
  std::string last;
  for (const bool staging : {false, true}) {
    ChartSeries series{.name = name_of(staging), .points = {}};
    for (std::uint32_t threads = 1; threads <= 128; threads *= 2) {
      // The figure measures the SmartNIC's processor, so the link must not be the limit. kNeeded is
      // the chunk rate that the figure requires; with chunks of 64 bytes the simulated link carries
      // more than three times this rate.
      DatapathSpec spec{.staging = staging, .threads = threads, .chunk_bytes = 64};
      spec.buffer_bytes = options.quick ? 1u << 20 : 8u << 20;
      const auto report = simulation::run_datapath(spec);
      if (!report) return report.status();
      series.points.push_back({static_cast<double>(threads), report->completions_per_second});
    }
    last += fmt::format("{}: {:.1f} M chunks/s with 128 threads. ", name_of(staging),
                        series.points.back().y / 1e6);
    chart.series.push_back(series);
  }
  chart.series.push_back({.name = "1.6 Tbit/s in chunks of 4 KiB",
                          .points = {{1, kNeeded}, {128, kNeeded}},
                          .of_source = true});
  return FigureSection{
      .id = "fig-16",
      .title = "Fig. 16: chunks of 64 bytes, the rate of a 1.6 Tbit/s link",
      .source =
          "128 threads, half of the DPA, sustain the chunk rate of 1.6 Tbit/s: 48.8 million a "
          "second.",
      .ours = last,
      .why =
          "The same cycles a completion whatever its size. Above 128 threads the link of 200 "
          "Gbit/s itself ends it: a chunk of 64 bytes carries 76 to 84 bytes of headers.",
      .pictures = draw_chart(chart),
      .command = "tutti sim datapath ud --chunk-bytes 64 -t 128 --rate 1600gbit"};
}

Result<FigureSection> single_thread(const FigureOptions&) {
  std::vector<std::vector<std::string>> table{
      {"", "GB/s", "instructions", "cycles printed", "cycles assumed", "GiB/s here", "off by"}};
  for (const bool staging : {false, true}) {
    const auto report = datapath(staging, 1);
    if (!report) return report.status();
    const sim::CompletionWork& work =
        staging ? sim::kUnreliableDatagram : sim::kUnreliableConnected;
    const double printed = staging ? 5.2 : 11.9;
    const double got = report->bytes_per_second / kGigabyte;
    table.push_back(
        {name_of(staging), fmt::format("{:.1f}", printed), fmt::format("{:.0f}", work.instructions),
         fmt::format("{:.0f}", work.printed_cycles), fmt::format("{:.0f}", work.cycles),
         fmt::format("{:.2f}", got), fmt::format("{:+.1f} %", (got / printed - 1) * 100)});
  }
  return FigureSection{
      .id = "table-1",
      .title = "Table I: one thread, 8 MiB, chunks of 4 KiB",
      .source =
          "UC 11.9 GiB/s, 66 instructions and 598 cycles a completion; UD 5.2 GiB/s, 113 and "
          "1084.",
      .ours =
          "Calibrated here and nowhere else: 24.5 us for an operation's begin and end, from the "
          "UC row with its printed cycles; UD's 1396 cycles from completion to completion.",
      .why =
          "The printed 598 cycles allow 11.48 GiB/s at 1.8 GHz, less than the printed 11.9: the "
          "table's unit is read as GB/s, which is what the authors' program prints. UD's printed "
          "cycles, 1084, are without the loop's look at the copies' completions.",
      .pictures = draw_table(table),
      .command = "tutti sim datapath uc -t 1; tutti sim datapath ud -t 1"};
}

}  // namespace tutti::app
