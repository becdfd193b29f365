#include "report.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <sstream>

namespace radix_sort {
namespace {

constexpr const char* kTitles =
    "#{:>6} {:>6} {:>9} {:>12} {:>12} {:>7} {:>11} {:>8} {:>11} {:>11} {:>11} {:>11} {:>8} {:>6}\n";
constexpr const char* kLine =
    " {:>6} {:>6} {:>9} {:>12.1f} {:>12.1f} {:>7.3f} {:>11.1f} {:>8.1f} {:>11.1f} {:>11.1f} "
    "{:>11.1f} {:>11.1f} {:>8.2f} {:>6}\n";

double us(std::int64_t nanoseconds) { return static_cast<double>(nanoseconds) / 1e3; }

double share(const Timings& timings) {
  const auto all = static_cast<double>(timings.median_ns());
  return all > 0 ? static_cast<double>(timings.median_ns(Phase::allgather)) / all : 0;
}

/// The bytes that the exchange sent, divided by the bytes of the keys that had to move.
double padding(const Row& row) {
  if (row.moved_bytes == 0) return 1;
  return static_cast<double>(row.carried_bytes) / static_cast<double>(row.moved_bytes);
}

nlohmann::json timings_json(const Timings& timings) {
  nlohmann::json phases = nlohmann::json::object();
  for (std::size_t p = 0; p < kPhases; ++p) {
    phases[kPhaseNames[p]] = timings.median_ns(static_cast<Phase>(p));
  }
  return {{"p50_ns", timings.median_ns()},
          {"times_ns", timings.times_ns},
          {"phases_p50_ns", phases},
          {"allgather_least_p50_ns", timings.median_least_allgather_ns()},
          {"allgather_share", share(timings)}};
}

const char* or_automatic(const std::string& algorithm) {
  return algorithm.empty() ? "automatic" : algorithm.c_str();
}

}  // namespace

void print_header(const Options& options, const tutti::Communicator& communicator) {
  fmt::print(
      "# radix_sort {}: {} ranks, {}-bit keys, {}{}, Allgather {}, Alltoall {}, progress by {}\n",
      TUTTI_VERSION, communicator.size(), options.key_bits, to_string(options.keys),
      options.taper ? ", tapered" : "", or_automatic(options.allgather),
      or_automatic(options.alltoall), to_string(options.progress));
  std::istringstream lines(communicator.describe());
  for (std::string line; std::getline(lines, line);) fmt::print("# {}\n", line);
  fmt::print(
      "# blocking, overlapped: the whole sort at the slowest rank, median of {} each, in turn;\n"
      "#   ratio: median of the pairs\n"
      "# allgather: starting and waiting for the histograms of all passes, mean of the ranks, "
      "blocking;\n"
      "#   share: of the blocking sort; least: at the rank that spent least in it, pass by pass, "
      "so without\n"
      "#   the wait for late ranks; local: keys moved within the rank, which can hide it\n"
      "# exposed: the same, overlapped; exchange: keys to their owners, overlapped\n"
      "# padding: bytes that the exchange carried for each byte that had to move\n#\n",
      options.iterations);
  fmt::print(kTitles, "radix", "passes", "keys", "blocking", "overlapped", "ratio", "allgather",
             "share", "least", "local", "exposed", "exchange", "padding", "check");
  fmt::print(kTitles, "", "", "(/rank)", "(us)", "(us)", "", "(us)", "(%)", "(us)", "(us)", "(us)",
             "(us)", "", "");
  std::fflush(stdout);
}

void print_row(const Row& row) {
  const Timings& blocking = row.of(Variant::blocking);
  const Timings& overlapped = row.of(Variant::overlapped);
  fmt::print(kLine, radix_text(row.radix), row.passes, row.keys_per_rank, us(blocking.median_ns()),
             us(overlapped.median_ns()), row.ratio(), us(blocking.median_ns(Phase::allgather)),
             100 * share(blocking), us(blocking.median_least_allgather_ns()),
             us(blocking.median_ns(Phase::local)), us(overlapped.median_ns(Phase::allgather)),
             us(overlapped.median_ns(Phase::exchange)), padding(row),
             row.wrong.empty() ? "OK" : "WRONG");
  if (!row.wrong.empty()) fmt::print("# WRONG: {}\n", row.wrong);
  std::fflush(stdout);
}

void print_summary(const std::vector<Row>& rows) {
  std::uint64_t sorts = 0;
  std::size_t wrong = 0;
  for (const Row& row : rows) {
    sorts += row.sorts_checked;
    wrong += row.wrong.empty() ? 0 : 1;
  }
  fmt::print("# {} sorts checked, {} rows wrong: {}\n", sorts, wrong, wrong == 0 ? "OK" : "FAILED");
}

nlohmann::json to_json(const Options& options, const tutti::Communicator& communicator,
                       const std::vector<Row>& rows) {
  nlohmann::json list = nlohmann::json::array();
  for (const Row& row : rows) {
    list.push_back({{"radix", row.radix},
                    {"passes", row.passes},
                    {"keys_per_rank", row.keys_per_rank},
                    {"blocking", timings_json(row.of(Variant::blocking))},
                    {"overlapped", timings_json(row.of(Variant::overlapped))},
                    {"ratio", row.ratio()},
                    {"moved_bytes", row.moved_bytes},
                    {"carried_bytes", row.carried_bytes},
                    {"sorts_checked", row.sorts_checked},
                    {"hierarchical_calls", row.hierarchical_calls},
                    {"wrong", row.wrong}});
  }
  return {{"schema", "tutti.radix_sort/1"},
          {"version", TUTTI_VERSION},
          {"ranks", communicator.size()},
          {"communicator", communicator.describe()},
          {"settings",
           {{"key_bits", options.key_bits},
            {"distribution", to_string(options.keys)},
            {"taper", options.taper},
            {"seed", options.seed},
            {"iterations", options.iterations},
            {"warmup_iterations", options.warmup},
            {"allgather", or_automatic(options.allgather)},
            {"alltoall", or_automatic(options.alltoall)},
            {"progress", to_string(options.progress)},
            {"piece_bytes", options.piece_bytes}}},
          {"rows", list}};
}

}  // namespace radix_sort
