#include "bench/report.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <sstream>

#include "size_text.hpp"
#include "version.hpp"

namespace tutti::app {
namespace {

struct Bandwidth {
  double algorithm = 0;  ///< algorithm bandwidth in GB/s: size divided by time
  double bus = 0;
};

/// The bus bandwidth divided by the algorithm bandwidth, as the NCCL tests define them.
double bus_factor(Operation operation, std::uint32_t ranks) {
  if (operation == Operation::allreduce) return 2 * (ranks - 1.0) / ranks;
  return counts_all_blocks(operation) ? (ranks - 1.0) / ranks : 1.0;
}

const char* bus_factor_text(Operation operation) {
  if (operation == Operation::allreduce) return "2 (ranks - 1) / ranks";
  return counts_all_blocks(operation) ? "(ranks - 1) / ranks" : "1";
}

Bandwidth bandwidth(const BenchRow& row, const Measured& measured, Operation operation,
                    std::uint32_t ranks) {
  const double time_ns = static_cast<double>(measured.percentile_ns(50));
  if (time_ns <= 0) return {};
  const double algorithm = static_cast<double>(row.size_bytes) / time_ns;
  return {algorithm, algorithm * bus_factor(operation, ranks)};
}

std::string microseconds(std::int64_t time_ns) {
  const double us = static_cast<double>(time_ns) / 1e3;
  if (us >= 100'000) return fmt::format("{:.0f}", us);
  return us >= 1000 ? fmt::format("{:.1f}", us) : fmt::format("{:.2f}", us);
}

constexpr const char* kHeadTitle = "#{:>11} {:>12} {:>8} {:>7} {:>6}";
constexpr const char* kHeadRow = "{:>12} {:>12} {:>8} {:>7} {:>6}";
constexpr const char* kResult = "  {:>9} {:>7} {:>7} {:>6}";
constexpr const char* kPercentiles = " {:>9} {:>9} {:>9} {:>9}";
constexpr const char* kLink = "  {:>12} {:>12} {:>12} {:>12} {:>7}";

void print_result(const BenchOptions& options, const BenchRow& row, const Measured* measured,
                  std::uint32_t ranks) {
  if (measured == nullptr) {
    fmt::print(kResult, "N/A", "N/A", "N/A", "N/A");
    if (options.percentiles) fmt::print(kPercentiles, "N/A", "N/A", "N/A", "N/A");
    return;
  }
  const Bandwidth speed = bandwidth(row, *measured, options.operation, ranks);
  fmt::print(kResult, microseconds(measured->percentile_ns(50)),
             fmt::format("{:.3f}", speed.algorithm), fmt::format("{:.3f}", speed.bus),
             options.measure.check ? std::to_string(measured->wrong_bytes) : "N/A");
  if (!options.percentiles) return;
  fmt::print(kPercentiles, microseconds(measured->percentile_ns(0)),
             microseconds(measured->percentile_ns(90)), microseconds(measured->percentile_ns(99)),
             microseconds(measured->percentile_ns(100)));
}

void print_definitions(const BenchOptions& options, Session& session) {
  const char* clock = session.one_clock()
                          ? "from a common start of all ranks to the end of the last rank"
                          : "longest time of a rank from a barrier's exit to the end "
                            "(the ranks do not share a clock)";
  fmt::print("# time: {}; median of {} repetitions after {} to warm up\n", clock,
             options.measure.iterations, options.measure.warmup);
  if (options.operation == Operation::barrier) return;
  const bool blocks = counts_all_blocks(options.operation);
  fmt::print("# -b, -e: bytes of {}; size: {}\n", blocks ? "one block" : "the message",
             blocks ? "of all ranks' blocks together" : "the same");
  fmt::print("# algbw: size / time; busbw: algbw x {}; 1 GB = 1e9 bytes\n",
             bus_factor_text(options.operation));
  fmt::print(
      "# #wrong: received bytes, over all ranks, that differ from the pattern of "
      "rank, offset and repetition\n");
  if (!options.measure.link_bytes) return;
  fmt::print(
      "# link bytes: per operation, by the interfaces' counters, headers included; ideal: "
      "each block sent once and received once by each other rank\n");
}

std::string shared_by(Session& session) {
  std::string text;
  for (std::uint32_t r = 0; r < session.size(); ++r) {
    const Location& where = session.locations()[r];
    text += fmt::format("#   rank {} on {} {}\n", r, where.host, where.interface);
  }
  return text;
}

nlohmann::json link_json(const LinkBytes& link) {
  nlohmann::json by_rank = nlohmann::json::array();
  for (const auto& [sent, received] : link.by_rank) {
    by_rank.push_back({{"sent_bytes", sent}, {"received_bytes", received}});
  }
  nlohmann::json json{{"max_sent_bytes", link.max_sent},
                      {"max_received_bytes", link.max_received},
                      {"total_bytes", link.total},
                      {"ideal_total_bytes", nullptr},
                      {"by_rank", by_rank}};
  if (link.ideal) json["ideal_total_bytes"] = *link.ideal;
  return json;
}

nlohmann::json result_json(const BenchOptions& options, const BenchRow& row,
                           const Measured& measured, std::uint32_t ranks) {
  const Bandwidth speed = bandwidth(row, measured, options.operation, ranks);
  nlohmann::json json{{"time_ns",
                       {{"min", measured.percentile_ns(0)},
                        {"p50", measured.percentile_ns(50)},
                        {"p90", measured.percentile_ns(90)},
                        {"p99", measured.percentile_ns(99)},
                        {"max", measured.percentile_ns(100)},
                        {"mean", measured.mean_ns()}}},
                      {"times_ns", measured.times_ns},
                      {"late_starts", measured.late_starts},
                      {"algbw_gbytes_per_second", speed.algorithm},
                      {"busbw_gbytes_per_second", speed.bus},
                      {"algorithm", measured.algorithm},
                      {"checked_repetitions", measured.checked},
                      {"wrong_bytes", nullptr},
                      {"sent_bytes_by_rank", measured.sent_bytes_by_rank},
                      {"counters", nlohmann::json::object()},
                      {"link", nullptr}};
  if (options.measure.check) json["wrong_bytes"] = measured.wrong_bytes;
  for (const auto& [name, value] : measured.counters) json["counters"][name] = value;
  if (measured.link) json["link"] = link_json(*measured.link);
  return json;
}

nlohmann::json settings_json(const BenchOptions& options) {
  const CommunicatorOptions& communicator = options.session.communicator;
  return {{"algorithm", to_string(Algorithm(options.session.algorithm))},
          {"type", reduces(options.operation) ? to_string(options.reduction.type) : "uint8"},
          {"redop", reduces(options.operation) ? to_string(options.reduction.operation) : "none"},
          {"root", index(options.root)},
          {"min_bytes", options.range.min_bytes},
          {"max_bytes", options.range.max_bytes},
          {"step_factor", options.range.step_factor},
          {"step_bytes", options.range.step_bytes},
          {"iterations", options.measure.iterations},
          {"warmup_iterations", options.measure.warmup},
          {"check", options.measure.check},
          {"link_bytes", options.measure.link_bytes},
          {"subgroups", communicator.subgroups},
          {"chains", communicator.chains},
          {"chunk_bytes", communicator.chunk_bytes},
          {"retain_bytes", communicator.retain_bytes},
          {"interface", communicator.interface},
          {"ipv6", communicator.ipv6},
          {"authenticate", communicator.authenticate},
          {"always_barrier", communicator.always_barrier}};
}

}  // namespace

void print_header(const BenchOptions& options, Session& session) {
  fmt::print("# tutti {} bench {}: {} ranks on {} host{}, algorithm {}\n", version(),
             to_string(options.operation), session.size(), session.hosts(),
             session.hosts() == 1 ? "" : "s", to_string(Algorithm(options.session.algorithm)));
  std::istringstream lines(session.communicator().describe());
  for (std::string line; std::getline(lines, line);) fmt::print("# {}\n", line);
  fmt::print("{}", shared_by(session));
  print_definitions(options, session);
  const std::size_t result_width = 35 + (options.percentiles ? 40 : 0);
  fmt::print("#\n#{:>50}{:^{}}{:^{}}", "", "out-of-place", result_width, "in-place", result_width);
  if (options.measure.link_bytes) fmt::print("  link bytes per operation (in-place)");
  fmt::print("\n");
  const auto results = [&](auto... titles) {
    for (int i = 0; i < 2; ++i) {
      fmt::print(kResult, titles...);
      if (options.percentiles && i < 2) fmt::print(kPercentiles, "min", "p90", "p99", "max");
    }
  };
  fmt::print(kHeadTitle, "size", "count", "type", "redop", "root");
  results("time", "algbw", "busbw", "#wrong");
  if (options.measure.link_bytes) {
    fmt::print(kLink, "max tx", "max rx", "total", "ideal", "ratio");
  }
  fmt::print("\n");
  fmt::print(kHeadTitle, "(B)", "(elements)", "", "", "");
  results("(us)", "(GB/s)", "(GB/s)", "(B)");
  fmt::print("\n");
  std::fflush(stdout);
}

void print_row(const BenchOptions& options, const BenchRow& row, std::uint32_t ranks) {
  const bool rooted = has_root(options.operation);
  const bool computes = reduces(options.operation);
  const Reduction& reduction = options.reduction;
  fmt::print(kHeadRow, row.size_bytes,
             computes ? row.send_bytes / element_bytes(reduction.type) : row.send_bytes,
             computes ? to_string(reduction.type) : "uint8",
             computes ? to_string(reduction.operation) : "none",
             rooted ? static_cast<int>(index(options.root)) : -1);
  print_result(options, row, row.out_of_place ? &*row.out_of_place : nullptr, ranks);
  print_result(options, row, &row.in_place, ranks);
  if (const auto& link = row.in_place.link) {
    const bool ideal = link->ideal && *link->ideal > 0;
    fmt::print(kLink, fmt::format("{:.0f}", link->max_sent),
               fmt::format("{:.0f}", link->max_received), fmt::format("{:.0f}", link->total),
               ideal ? fmt::format("{:.0f}", *link->ideal) : "N/A",
               ideal ? fmt::format("{:.3f}", link->total / *link->ideal) : "N/A");
  }
  fmt::print("\n");
  std::fflush(stdout);
}

void print_summary(const BenchOptions& options, const std::vector<BenchRow>& rows) {
  int late_starts = 0;
  for (const BenchRow& row : rows) {
    late_starts += row.in_place.late_starts;
    if (row.out_of_place) late_starts += row.out_of_place->late_starts;
  }
  const std::uint64_t wrong = wrong_bytes(rows);
  if (options.measure.check) {
    fmt::print("# wrong bytes: {} {}\n", wrong, wrong == 0 ? "OK" : "FAILED");
  } else {
    fmt::print("# wrong bytes: not checked\n");
  }
  if (late_starts > 0) {
    fmt::print("# {} repetitions were dropped because a rank missed the common start\n",
               late_starts);
  }
}

nlohmann::json to_json(const BenchOptions& options, Session& session,
                       const std::vector<BenchRow>& rows) {
  nlohmann::json ranks = nlohmann::json::array();
  for (const Location& where : session.locations()) {
    ranks.push_back({{"host", where.host}, {"interface", where.interface}});
  }
  nlohmann::json list = nlohmann::json::array();
  for (const BenchRow& row : rows) {
    nlohmann::json one{{"size_bytes", row.size_bytes},
                       {"send_bytes", row.send_bytes},
                       {"out_of_place", nullptr},
                       {"in_place", result_json(options, row, row.in_place, session.size())}};
    if (row.out_of_place) {
      one["out_of_place"] = result_json(options, row, *row.out_of_place, session.size());
    }
    list.push_back(std::move(one));
  }
  nlohmann::json json{{"schema", "tutti.bench/1"},
                      {"version", version()},
                      {"operation", to_string(options.operation)},
                      {"settings", settings_json(options)},
                      {"bootstrap", session.bootstrap()},
                      {"communicator", session.communicator().describe()},
                      {"clock", session.one_clock() ? "common_start" : "barrier_exit"},
                      {"ranks", ranks},
                      {"hosts", session.hosts()},
                      {"rows", list},
                      {"wrong_bytes", nullptr}};
  if (options.measure.check) json["wrong_bytes"] = wrong_bytes(rows);
  return json;
}

std::uint64_t wrong_bytes(const std::vector<BenchRow>& rows) {
  std::uint64_t wrong = 0;
  for (const BenchRow& row : rows) {
    wrong += row.in_place.wrong_bytes;
    if (row.out_of_place) wrong += row.out_of_place->wrong_bytes;
  }
  return wrong;
}

}  // namespace tutti::app
