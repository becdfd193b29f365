// Reproduces the figures about the number of bytes on network links.
#include <fmt/format.h>

#include <array>
#include <string>
#include <vector>

#include "sim/figures/chart.hpp"
#include "sim/figures/figures.hpp"
#include "sim/simulation/experiment.hpp"
#include "studies/traffic/traffic_experiment.hpp"

namespace tutti::app {
namespace {

using simulation::TrafficReport;
using simulation::TrafficSpec;

// The fat tree in the script of [Khalilov24]: 16 hosts per leaf switch, two leaf switches per pod,
// and 32 pods.
constexpr const char* kAuthorsTree =
    "link 200Gbit/s 50ns\nfat-tree down 16 2 32 up 1 16 16 hosts 1024\n";

constexpr std::uint32_t kBlock = 4096;

Result<TrafficReport> traffic(const char* algorithm, std::uint32_t ranks, std::uint64_t bytes,
                              const char* topology = nullptr) {
  TrafficSpec spec;
  spec.algorithm = algorithm;
  spec.ranks = ranks;
  spec.bytes = bytes;
  spec.place = simulation::default_place(ranks);
  if (topology != nullptr) spec.topology_text = topology;
  return simulation::run_traffic(spec);
}

double payload(const TrafficReport& report, sim::CountingRule rule) {
  return static_cast<double>(report.rules[static_cast<std::size_t>(rule)].payload_bytes);
}

}  // namespace

Result<FigureSection> link_traffic_model(const FigureOptions& options) {
  constexpr std::array kNames = {"allgather_linear", "allgather_ring",
                                 "allgather_recursive_doubling", "allgather_multicast"};
  LineChart chart{.x = {.label = "ranks", .scale = Scale::log2},
                  .y = {.label = "bytes on links, in send buffers", .scale = Scale::log10},
                  .series = {}};
  std::vector<std::vector<std::string>> table{
      {"ranks", "linear, ring, rec. doubling over multicast: the authors' count", "exact"}};
  for (const bool exact : {false, true}) {
    for (const char* name : kNames) {
      chart.series.push_back({.name = std::string(name + 10) + (exact ? ", exact" : ", authors"),
                              .points = {},
                              .of_source = !exact});
    }
  }
  std::string last;
  for (std::uint32_t ranks = 2; ranks <= (options.quick ? 128u : 1024u); ranks *= 2) {
    std::array<double, 4> authors{};
    std::array<double, 4> exact{};
    for (std::size_t i = 0; i < kNames.size(); ++i) {
      const auto report = traffic(kNames[i], ranks, kBlock, kAuthorsTree);
      if (!report) return report.status();
      authors[i] = static_cast<double>(report->paper_units);
      exact[i] = payload(*report, sim::CountingRule::link) / kBlock;
      const double x = ranks;
      chart.series[i].points.push_back({x, authors[i]});
      chart.series[i + kNames.size()].points.push_back({x, exact[i]});
    }
    const auto ratios = [](const std::array<double, 4>& of) {
      return fmt::format("{:.3f}, {:.3f}, {:.3f}", of[0] / of[3], of[1] / of[3], of[2] / of[3]);
    };
    table.push_back({fmt::format("{}", ranks), ratios(authors), ratios(exact)});
    last = fmt::format("At {} ranks, over multicast: {} by the authors' count, {} exactly.", ranks,
                       ratios(authors), ratios(exact));
  }
  return FigureSection{
      .id = "fig-2",
      .title = "Fig. 2: bytes that an Allgather puts on the links of a 1,024-node fat tree",
      .source =
          "About twice as many bytes with ring, more with the others; 1,024 nodes, switches of "
          "radix 32. The authors' script, re-derived here, prints 1.993 (ring) and 3.609 "
          "(linear, recursive doubling) at 1,024.",
      .ours = last +
              " Rule: every directed link once, host links included, payload only; packed "
              "placement; the authors' tree of 16 hosts a leaf and two leaves a pod.",
      .why =
          "The script takes the distance between two ranks with its sign, so that a message to "
          "a lower rank is charged two links, and lets a multicast enter the pod that it came "
          "from once more. Routed packet by packet, linear and recursive doubling cost more, "
          "multicast slightly less.",
      .pictures = draw_chart(chart) + draw_table(table),
      .command = "tutti sim traffic allgather_ring -p 1024 --bytes 4K --json"};
}

Result<FigureSection> switch_traffic(const FigureOptions&) {
  struct Peer {
    const char* algorithm;
    const char* shown;
  };
  constexpr std::array<Peer, 9> kPeers = {{{"allgather_ring", "ring"},
                                           {"allgather_linear", "linear"},
                                           {"allgather_recursive_doubling", "doubling"},
                                           {"allgather_bruck", "Bruck"},
                                           {"broadcast_binomial", "binomial"},
                                           {"broadcast_4_nomial", "4-nomial"},
                                           {"broadcast_binary_heap", "binary"},
                                           {"broadcast_chain", "chain"},
                                           {"broadcast_scatter_ring", "scatter"}}};
  constexpr std::uint64_t kBytes = 64u << 10;
  BarChart chart{.y = {.label = "bytes over multicast's"}, .groups = {}, .bars = {}};
  chart.bars = {{.name = "every link once (LINK)", .values = {}},
                {.name = "received and sent by switch ports (RXTX)", .values = {}},
                {.name = "sent by switch ports (TX)", .values = {}}};
  constexpr std::array kRules = {sim::CountingRule::link, sim::CountingRule::rx_tx,
                                 sim::CountingRule::tx};
  std::vector<std::vector<std::string>> table{
      {"algorithm", "LINK", "RXTX", "TX", "LINK, all bytes"}};
  for (const auto& [name, shown] : kPeers) {
    const std::string peer(name);
    const char* own = peer.starts_with("all") ? "allgather_multicast" : "broadcast_multicast";
    const auto multicast = traffic(own, 188, kBytes);
    const auto report = traffic(name, 188, kBytes);
    if (!multicast) return multicast.status();
    if (!report) return report.status();
    chart.groups.push_back(shown);
    table.push_back({peer});
    for (std::size_t r = 0; r < kRules.size(); ++r) {
      const double ratio = payload(*report, kRules[r]) / payload(*multicast, kRules[r]);
      chart.bars[r].values.push_back(ratio);
      table.back().push_back(fmt::format("{:.3f}", ratio));
    }
    table.back().push_back(
        fmt::format("{:.3f}", static_cast<double>(report->rules[0].wire_bytes) /
                                  static_cast<double>(multicast->rules[0].wire_bytes)));
  }
  return FigureSection{
      .id = "fig-12",
      .title =
          "Fig. 12: bytes over all switch ports, 188 nodes, 64 KiB; four Allgathers, five "
          "Broadcasts",
      .source =
          "Multicast moves 1.5 times (Broadcast) to 2 times (Allgather) fewer bytes across the "
          "18 switches than point-to-point algorithms; ten iterations of 64 KiB.",
      .ours =
          "Ring Allgather 1.99 times as many on every link and by received and sent counters; "
          "Broadcast 2 times and more. Payload only unless the column says otherwise; packed "
          "placement.",
      .why =
          "No routing brings a Broadcast below 2 (P-1) / (P+L) = 1.87 by these rules: what the "
          "paper measures includes bytes that both sides have in common, such as start-up and "
          "barriers of the benchmark, which weigh little beside an Allgather and much beside a "
          "Broadcast. Counted by transmitted bytes alone a ring saves next to nothing (1.06).",
      .pictures = draw_chart(chart) + draw_table(table),
      .command = "tutti sim traffic broadcast_4_nomial -p 188 --bytes 64K"};
}

Result<FigureSection> both_collectives(const FigureOptions& options) {
  LineChart chart{.x = {.label = "ranks", .scale = Scale::log2},
                  .y = {.label = "speed-up of {multicast, in-network} over {ring, ring}"},
                  .series = {{.name = "2 - 2/P", .points = {}, .of_source = true},
                             {.name = "simulated", .points = {}}}};
  std::vector<std::vector<std::string>> table{
      {"ranks", "2 - 2/P", "simulated", "rings, us", "offloaded, us"}};
  double worst = 0;
  for (std::uint32_t ranks = 2; ranks <= (options.quick ? 128u : 1024u); ranks *= 2) {
    // The blocks are so long that latencies, which the closed form 2 - 2/P ignores, are negligible.
    const std::uint64_t bytes = kBlock * std::max<std::uint64_t>(4096 / ranks, 8);
    const auto rings = traffic("rings_together", ranks, bytes);
    const auto offloaded = traffic("offloaded_together", ranks, bytes);
    if (!rings) return rings.status();
    if (!offloaded) return offloaded.status();
    const double ring_us = sim::to_microseconds(rings->times[0]);
    const double own_us = sim::to_microseconds(offloaded->times[0]);
    const double theory = 2 - 2.0 / ranks;
    const double got = ring_us / own_us;
    worst = std::max(worst, std::abs(got / theory - 1));
    chart.series[0].points.push_back({static_cast<double>(ranks), theory});
    chart.series[1].points.push_back({static_cast<double>(ranks), got});
    table.push_back({fmt::format("{}", ranks), fmt::format("{:.3f}", theory),
                     fmt::format("{:.3f}", got), fmt::format("{:.1f}", ring_us),
                     fmt::format("{:.1f}", own_us)});
  }
  return FigureSection{
      .id = "appendix-b",
      .title = "Appendix B: Allgather beside Reduce-Scatter",
      .source =
          "S = 2 - 2/P: a multicast Allgather is bound by a host's receiving link, an in-network "
          "Reduce-Scatter by its sending link, and two rings share both.",
      .ours = fmt::format("Within {:.1f} % of it.", worst * 100),
      .why =
          "Headers of multicast datagrams are longer, and a turn begins when the packets of the "
          "one before are on their way. The order matters: in turn r rank r multicasts while all "
          "others contribute to r's result, so that no two packets ever want one link.",
      .pictures = draw_chart(chart) + draw_table(table),
      .command = "tutti sim traffic offloaded_together -p 64 --bytes 256K"};
}

}  // namespace tutti::app
