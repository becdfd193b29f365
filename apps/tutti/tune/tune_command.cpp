#include "tune/tune_command.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/prctl.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <optional>

#include "base/error.hpp"
#include "bench/measurement.hpp"
#include "exit_status.hpp"
#include "output_file.hpp"
#include "session.hpp"
#include "size_option.hpp"
#include "size_text.hpp"
#include "tune/candidates.hpp"
#include "tune/choice_file.hpp"
#include "version.hpp"

namespace tutti::app {
namespace {

constexpr Operation kTuned[] = {
    Operation::barrier, Operation::broadcast,      Operation::allgather,
    Operation::gather,  Operation::scatter,        Operation::alltoall,
    Operation::reduce,  Operation::reduce_scatter, Operation::allreduce};

struct TuneOptions {
  SessionOptions session;
  MeasureOptions measure;
  std::vector<std::string> operations;  ///< collectives to tune; empty: all
  SizeRange range{.min_bytes = 64, .max_bytes = std::uint64_t{1} << 20};
  double margin_percent = 5;
  std::string output = "tutti-choices.txt";
  bool append = false;
};

/// The median time of the algorithm that ran, in us, and the name of the algorithm.
struct Timed {
  double median_us = 0;
  std::string algorithm;
};

class Tuner {
 public:
  Tuner(const TuneOptions& options, Session& session)
      : options_(options), session_(session), device_(session.communicator().device()) {}

  Result<std::vector<TunedRow>> run(const std::vector<Operation>& operations) {
    if (session_.is_first())
      fmt::print("{:<16}{:>8}  {:<28}{:>11}  {:<22}{:>11}{:>8}\n", "", "block", "chosen", "us",
                 "usual", "us", "gain");
    std::vector<TunedRow> rows;
    for (const Operation operation : operations) {
      const auto sizes = operation == Operation::barrier ? std::vector<std::uint64_t>{0}
                                                         : options_.range.sizes(sizeof(float));
      for (const std::uint64_t bytes : sizes) {
        auto row = tune(operation, bytes);
        if (!row) return row.status();
        if (session_.is_first()) print(*row);
        rows.push_back(std::move(*row));
      }
    }
    return rows;
  }

  collectives::ChoicePlace place() const {
    return {.ranks = session_.size(),
            .hosts = session_.hosts(),
            .device = device_ == "host" ? "host" : "ip"};
  }

 private:
  /// Measures a collective with the algorithm and parameters of `choice`, or with the default if
  /// `choice` is null.
  Result<Timed> time(Operation operation, std::uint64_t bytes, const collectives::Choice* choice) {
    ExerciseOptions exercise{.operation = operation, .send_bytes = bytes};
    if (choice != nullptr) {
      exercise.call = {.algorithm = Algorithm(choice->algorithm),
                       .ports = choice->parameters.ports,
                       .radix = choice->parameters.radix};
    }
    auto measured = measure(session_, exercise, options_.measure);
    if (!measured) return measured.status();
    if (measured->wrong_bytes > 0)
      return failure(
          Code::internal,
          "{} of {} bytes by the algorithm '{}' gave {} wrong bytes: report this as a defect",
          to_string(operation), bytes,
          choice == nullptr ? "automatic" : collectives::to_string(*choice), measured->wrong_bytes);
    return Timed{static_cast<double>(measured->percentile_ns(50)) / 1e3, measured->algorithm};
  }

  bool beats(double candidate_us, double usual_us) const {
    return candidate_us < usual_us * (1 - options_.margin_percent / 100);
  }

  Result<TunedRow> tune(Operation operation, std::uint64_t bytes) {
    TunedRow row{.operation = operation, .block_bytes = bytes, .chosen = "automatic"};
    auto usual = time(operation, bytes, nullptr);
    if (!usual) return usual.status();
    row.usual = usual->algorithm;
    row.chosen_us = row.usual_us = usual->median_us;

    std::optional<collectives::Choice> best;
    double best_us = usual->median_us;
    for (const collectives::Choice& one : candidates(operation, session_.size())) {
      if (collectives::to_string(one) == row.usual) continue;
      const auto timing = time(operation, bytes, &one);
      if (!timing) {
        // If a candidate is unsupported, every rank gets this error before any data is sent, and
        // all ranks skip the candidate.
        if (timing.status().code() == Code::unsupported) continue;
        return timing.status();
      }
      if (timing->median_us >= best_us) continue;
      best_us = timing->median_us;
      best = one;
    }
    if (!best || !beats(best_us, row.usual_us)) return row;
    return confirm(std::move(row), *best);
  }

  /// Measures the default and the best candidate once more, because a candidate may be the fastest
  /// of many by chance. The candidate is chosen only if it is faster again; the times of this
  /// second measurement are reported.
  Result<TunedRow> confirm(TunedRow row, const collectives::Choice& best) {
    const auto usual = time(row.operation, row.block_bytes, nullptr);
    if (!usual) return usual.status();
    const auto again = time(row.operation, row.block_bytes, &best);
    if (!again) return again.status();
    row.usual_us = row.chosen_us = usual->median_us;
    if (!beats(again->median_us, usual->median_us)) return row;
    row.chosen = collectives::to_string(best);
    row.chosen_us = again->median_us;
    return row;
  }

  static void print(const TunedRow& row) {
    fmt::print("{:<16}{:>8}  {:<28}{:>11.1f}  {:<22}{:>11.1f}{:>8.2f}\n", to_string(row.operation),
               size_text(row.block_bytes), row.usual_is_best() ? "as usual" : row.chosen,
               row.chosen_us, row.usual, row.usual_us, row.usual_us / row.chosen_us);
    std::fflush(stdout);
  }

  const TuneOptions& options_;
  Session& session_;
  std::string device_;
};

Result<std::vector<Operation>> operations_of(const TuneOptions& options) {
  std::vector<Operation> list;
  std::vector<std::string> known;
  for (const Operation one : kTuned) {
    const std::string name = to_string(one);
    known.push_back(name);
    const auto& wanted = options.operations;
    if (wanted.empty() || std::find(wanted.begin(), wanted.end(), name) != wanted.end())
      list.push_back(one);
  }
  for (const std::string& one : options.operations) {
    if (std::find(known.begin(), known.end(), one) == known.end())
      return failure(Code::invalid_argument, "collective '{}' cannot be tuned: use one of {}", one,
                     fmt::join(known, ", "));
  }
  return list;
}

Status check(const TuneOptions& options) {
  for (const char* variable : {"TUTTI_ALGORITHMS", "TUTTI_ALGORITHM_FILE"}) {
    if (std::getenv(variable) != nullptr)
      return failure(Code::invalid_argument,
                     "{} is set, so the default algorithm cannot be measured: unset it", variable);
  }
  if (!options.session.algorithm.empty())
    return failure(
        Code::invalid_argument,
        "--algorithm {} has no effect, because all algorithms are measured: leave it out",
        options.session.algorithm);
  return options.range.check(DataType::float32);
}

Status write(const TuneOptions& options, const Tuner& tuner, const std::vector<TunedRow>& rows) {
  const std::string text = choice_file(
      tuner.place(), rows,
      fmt::format("tutti tune {}: medians of {} repetitions; TUTTI_ALGORITHM_FILE names this file",
                  version(), options.measure.iterations));
  std::ofstream file(options.output, options.append ? std::ios::app : std::ios::trunc);
  file << text;
  file.close();
  if (!file) return cannot_write("--output", options.output);
  fmt::print("\n{}: {}, for these ranks only\n", options.output, to_string(tuner.place()));
  return {};
}

Status tune(const TuneOptions& options) {
  if (Status status = check(options); !status) return status;
  const auto operations = operations_of(options);
  if (!operations) return operations.status();
  // All ranks sleep until a common start. The smallest timer slack keeps the kernel from prolonging
  // this sleep.
  prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
  auto session = Session::create(options.session);
  if (!session) return session.status();
  Tuner tuner(options, *session);
  const auto rows = tuner.run(*operations);
  if (!rows) return rows.status();
  Status status;
  if (session->is_first()) status = write(options, tuner, *rows);
  const Status end = session->finish();
  return status.ok() ? end : status;
}

}  // namespace

void add_tune_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("tune",
                                         "Measure the fastest algorithm for each collective and "
                                         "size, as one process of a job (tutti run, lab, "
                                         "mpirun), and write a table for TUTTI_ALGORITHM_FILE");
  const auto options = std::make_shared<TuneOptions>();
  command->add_option("collectives", options->operations,
                      "Collectives: allgather broadcast ... (default: all)");
  command->add_option("-o,--output", options->output, "Output file")->capture_default_str();
  command->add_flag("--append", options->append,
                    "Append to the file, which may have tables for other ranks, hosts and devices");
  add_size_range(*command, options->range);
  command->add_option("-n,--iters", options->measure.iterations, "Measured repetitions")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  command
      ->add_option("-w,--warmup_iters", options->measure.warmup,
                   "Warm-up repetitions, which are not measured")
      ->check(CLI::Range(0, 1'000'000))
      ->capture_default_str();
  command
      ->add_option("--margin", options->margin_percent,
                   "Percent by which an algorithm must beat the default in two measurements")
      ->check(CLI::Range(0.0, 90.0))
      ->capture_default_str();
  add_session_options(*command, options->session);
  command->callback([options, &exit_code] {
    if (Status status = tune(*options); !status) exit_code = complain("tune", status);
  });
}

}  // namespace tutti::app
