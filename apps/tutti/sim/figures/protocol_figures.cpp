// Reproduces the figures about the protocol: chunk map, phases and throughput.
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "sim/figures/chart.hpp"
#include "sim/figures/figures.hpp"
#include "sim/simulation/experiment.hpp"
#include "studies/traffic/traffic_experiment.hpp"

namespace tutti::app {
namespace {

using simulation::CollectiveKind;
using simulation::ExperimentReport;
using simulation::ExperimentSpec;

// Time that a simulated rank of another library needs from the last byte of a received message
// until it posts its next message. A simulated rank of Tutti needs the same time.
constexpr sim::Picoseconds kPeerOverhead = sim::nanoseconds(1250);

Result<ExperimentReport> protocol(CollectiveKind kind, std::uint32_t ranks, std::uint64_t bytes,
                                  std::uint32_t iterations = 1, std::uint32_t background = 0) {
  ExperimentSpec spec;
  spec.collective = {.kind = kind, .bytes = bytes};
  spec.collective.in_place =
      kind == CollectiveKind::allgather || kind == CollectiveKind::ring_allgather;
  spec.ranks = ranks;
  spec.iterations = iterations;
  spec.place = simulation::default_place(ranks);
  spec.background = {.streams = background, .load = 0.5};
  return simulation::run_experiment(spec);
}

Result<simulation::TrafficReport> peer(const char* algorithm, std::uint32_t ranks,
                                       std::uint64_t bytes, std::uint32_t iterations = 1,
                                       std::uint32_t background = 0) {
  simulation::TrafficSpec spec;
  spec.algorithm = algorithm;
  spec.ranks = ranks;
  spec.bytes = bytes;
  spec.iterations = iterations;
  spec.place = simulation::default_place(ranks);
  spec.traffic.message_overhead = kPeerOverhead;
  spec.background = {.streams = background, .load = 0.5};
  return simulation::run_traffic(spec);
}

/// The rate in Gbit/s at which a rank receives this number of bytes in this time.
double rate(double bytes, double seconds) { return bytes * 8 / seconds / 1e9; }
double seconds_of(const ExperimentReport& report) {
  return static_cast<double>(report.times[0].count()) * 1e-9;
}
double seconds_of(const simulation::TrafficReport& report) {
  return sim::to_seconds(report.times[0]);
}

/// The standard deviation of the times divided by their mean, in percent.
double variation(const std::vector<double>& times) {
  double sum = 0;
  double squares = 0;
  for (const double time : times) sum += time;
  const double mean = sum / static_cast<double>(times.size());
  for (const double time : times) squares += (time - mean) * (time - mean);
  return std::sqrt(squares / static_cast<double>(times.size())) / mean * 100;
}

}  // namespace

Result<FigureSection> bitmap_sizes(const FigureOptions&) {
  constexpr double kChunk = 4096;
  constexpr double kCache = 1.5 * 1024 * 1024;
  LineChart chart{
      .x = {.label = "bits of the packet sequence number", .from_zero = false},
      .y = {.label = "bytes", .scale = Scale::log2, .unit = Unit::bytes},
      .series = {{.name = "receive buffer that they address", .points = {}},
                 {.name = "bitmap", .points = {}},
                 {.name = "the processor's cache, 1.5 MiB", .points = {}, .of_source = true}}};
  for (int bits = 10; bits <= 32; ++bits) {
    const double chunks = std::pow(2.0, bits);
    chart.series[0].points.push_back({static_cast<double>(bits), chunks * kChunk});
    chart.series[1].points.push_back({static_cast<double>(bits), chunks / 8});
    chart.series[2].points.push_back({static_cast<double>(bits), kCache});
  }
  return FigureSection{
      .id = "fig-7",
      .title = "Fig. 7: receive buffer and bitmap by the width of the sequence number",
      .source =
          "A bitmap that fits the processor's cache of 1.5 MB addresses about 50 GB; a bitmap of "
          "64 KiB is said to cover 16 GB.",
      .ours =
          fmt::format("One bit a chunk of 4 KiB: 1.5 MiB cover {}, 64 KiB cover {}. Tutti's own "
                      "header keeps 32 bits for the sequence number and 32 for the epoch.",
                      write_number(kCache * 8 * kChunk, Unit::bytes),
                      write_number(65536.0 * 8 * kChunk, Unit::bytes)),
      .why =
          "64 KiB are 524,288 bits: times 4 KiB that is 2 GiB. The figure in the paper's text is "
          "a slip.",
      .pictures = draw_chart(chart),
      .command = {}};
}

Result<FigureSection> critical_path(const FigureOptions& options) {
  const std::vector<std::uint64_t> sizes =
      options.quick
          ? std::vector<std::uint64_t>{4u << 10, 64u << 10}
          : std::vector<std::uint64_t>{4u << 10, 16u << 10, 64u << 10, 256u << 10, 1u << 20};
  std::vector<std::uint32_t> nodes{2, 4, 8, 16, 32};
  if (!options.quick) nodes.insert(nodes.end(), {64, 128, 188});
  LineChart chart{.x = {.label = "nodes", .scale = Scale::log2},
                  .y = {.label = "time in barrier and handshake", .unit = Unit::percent},
                  .series = {}};
  std::vector<std::vector<std::string>> table{{"bytes a rank"}};
  for (const std::uint32_t ranks : nodes) table[0].push_back(fmt::format("{} nodes", ranks));
  double at_16 = 0;
  for (const std::uint64_t bytes : sizes) {
    ChartSeries series{.name = write_number(static_cast<double>(bytes), Unit::bytes), .points = {}};
    table.push_back({series.name});
    for (const std::uint32_t ranks : nodes) {
      const auto report = protocol(CollectiveKind::allgather, ranks, bytes);
      if (!report) return report.status();
      const simulation::PhaseTimes& phases = report->phases;
      const double around = phases.ready_ns + phases.handshake_ns;
      const double share = around / (around + phases.data_ns) * 100;
      series.points.push_back({static_cast<double>(ranks), share});
      table.back().push_back(fmt::format("{:.2f} %", share));
      if (ranks == 16) at_16 = share;
    }
    chart.series.push_back(series);
  }
  return FigureSection{
      .id = "fig-10",
      .title = "Fig. 10: time of an Allgather spent in the ready barrier and the final handshake",
      .source =
          "The share falls with message size and node count; from 16 nodes 99 % of the time is "
          "data movement.",
      .ours = fmt::format("{:.2f} % at 16 nodes and {}. 56 Gbit/s; one switch up to 36 nodes, the "
                          "188-node system beyond.",
                          at_16, write_number(static_cast<double>(sizes.back()), Unit::bytes)),
      .why =
          "The paper counts processor time of its threads, ours is time on the critical path, "
          "where a barrier of log2 P rounds costs a few microseconds for any size.",
      .pictures = draw_chart(chart) + draw_table(table),
      .command = "tutti sim run allgather -p 16 --bytes 1M --json"};
}

namespace {

struct Contest {
  LineChart chart;
  std::vector<std::vector<std::string>> table;
  double best_k_nomial = 0;
  double best_binary = 0;
  /// Throughput of the multicast Allgather divided by that of the ring Allgather: the smallest
  /// ratio over all blocks of at least 128 KiB.
  double worst_parity = HUGE_VAL;
};

Status gather_throughput(const std::vector<std::uint64_t>& sizes, Contest& contest) {
  contest.chart.series = {{.name = "Allgather, multicast", .points = {}},
                          {.name = "Allgather, ring", .points = {}},
                          {.name = "Broadcast, multicast", .points = {}},
                          {.name = "Broadcast, 4-nomial", .points = {}},
                          {.name = "Broadcast, binary tree", .points = {}},
                          {.name = "Broadcast, scatter and ring", .points = {}}};
  for (const std::uint64_t bytes : sizes) {
    const auto size = static_cast<double>(bytes);
    std::vector<double> rates;
    for (const CollectiveKind kind : {CollectiveKind::allgather, CollectiveKind::ring_allgather}) {
      const auto report = protocol(kind, 188, bytes);
      if (!report) return report.status();
      rates.push_back(rate(size * 187, seconds_of(*report)));
    }
    const auto own = protocol(CollectiveKind::broadcast, 188, bytes);
    if (!own) return own.status();
    rates.push_back(rate(size, seconds_of(*own)));
    for (const char* name :
         {"broadcast_4_nomial", "broadcast_binary_heap", "broadcast_scatter_ring"}) {
      const auto report = peer(name, 188, bytes);
      if (!report) return report.status();
      rates.push_back(rate(size, seconds_of(*report)));
    }
    contest.table.push_back({write_number(size, Unit::bytes)});
    for (std::size_t i = 0; i < rates.size(); ++i) {
      contest.chart.series[i].points.push_back({size, rates[i]});
      contest.table.back().push_back(fmt::format("{:.2f}", rates[i]));
    }
    contest.best_k_nomial = std::max(contest.best_k_nomial, rates[2] / rates[3]);
    contest.best_binary = std::max(contest.best_binary, rates[2] / rates[4]);
    if (bytes >= (128u << 10)) {
      contest.worst_parity = std::min(contest.worst_parity, rates[0] / rates[1]);
    }
  }
  return {};
}

Result<std::string> noise_table(std::uint32_t iterations) {
  constexpr std::uint32_t kStreams = 16;
  constexpr std::uint64_t kBytes = 64u << 10;
  std::vector<std::vector<std::string>> table{
      {fmt::format("64 KiB, {} streams of others, {} iterations", kStreams, iterations),
       "time to the last rank, standard deviation over mean"}};
  const auto own = [&](const char* name, CollectiveKind kind) -> Status {
    const auto report = protocol(kind, 188, kBytes, iterations, kStreams);
    if (!report) return report.status();
    std::vector<double> times;
    for (const Nanoseconds time : report->times) times.push_back(static_cast<double>(time.count()));
    table.push_back({name, fmt::format("{:.2f} %", variation(times))});
    return {};
  };
  if (Status done = own("Allgather, multicast", CollectiveKind::allgather); !done) return done;
  if (Status done = own("Allgather, ring", CollectiveKind::ring_allgather); !done) return done;
  if (Status done = own("Broadcast, multicast", CollectiveKind::broadcast); !done) return done;
  for (const char* name : {"broadcast_4_nomial", "broadcast_binary_heap"}) {
    const auto report = peer(name, 188, kBytes, iterations, kStreams);
    if (!report) return report.status();
    std::vector<double> times;
    for (const sim::Picoseconds time : report->times) {
      times.push_back(static_cast<double>(time.count));
    }
    table.push_back({name, fmt::format("{:.2f} %", variation(times))});
  }
  return draw_table(table);
}

}  // namespace

Result<FigureSection> throughput_at_scale(const FigureOptions& options) {
  Contest contest;
  contest.chart.x = {.label = "bytes a rank sends", .scale = Scale::log2, .unit = Unit::bytes};
  contest.chart.y = {.label = "Gbit/s that a rank receives"};
  contest.table = {{"bytes", "AG multicast", "AG ring", "BC multicast", "BC 4-nomial",
                    "BC binary tree", "BC scatter, ring"}};
  std::vector<std::uint64_t> sizes{4u << 10, 16u << 10, 64u << 10, 128u << 10};
  if (!options.quick) sizes.insert(sizes.end(), {256u << 10, 512u << 10, 1u << 20});
  if (Status done = gather_throughput(sizes, contest); !done) return done;
  auto noise = noise_table(options.quick ? 4 : 20);
  if (!noise) return noise.status();
  return FigureSection{
      .id = "fig-11",
      .title = "Fig. 11: throughput at 188 nodes, 56 Gbit/s",
      .source =
          "Broadcast at best 1.3 times k-nomial and 4.75 times binary tree; Allgather of 128 to "
          "256 KiB equal to ring; far less variation than the point-to-point algorithms.",
      .ours = fmt::format("Broadcast at best {:.2f} times 4-nomial and {:.2f} times binary tree; "
                          "Allgather from 128 KiB on at least {:.2f} of ring.",
                          contest.best_k_nomial, contest.best_binary, contest.worst_parity),
      .why =
          "Both Allgathers are bound by the receiving link of a host. Our trees send the whole "
          "message at every level, as their textbook forms do; the peers that the paper measured "
          "cut it into pieces from 32 KiB on (their k-nomial then is scatter and Allgather), and "
          "its multicast was bound by one host core, ours by the link. Peers take 1.25 us from a "
          "message to the next, as our own ranks do.",
      .pictures = draw_chart(contest.chart) + draw_table(contest.table) + *noise,
      .command =
          "tutti sim run broadcast -p 188 --bytes 256K; tutti sim traffic broadcast_4_nomial "
          "-p 188 --bytes 256K --overhead-ns 1250"};
}

}  // namespace tutti::app
