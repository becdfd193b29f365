#include "bench/bench_command.hpp"

#include <sys/prctl.h>

#include <CLI/CLI.hpp>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "bench/report.hpp"
#include "exit_status.hpp"
#include "output_file.hpp"
#include "size_text.hpp"

namespace tutti::app {
namespace {

void add_options(CLI::App& command, BenchOptions& options) {
  if (options.operation != Operation::barrier) {
    add_size_range(command, options.range);
    command.add_option("-c,--check", options.measure.check, "1: check the received data")
        ->capture_default_str();
  }
  command.add_option("-n,--iters", options.measure.iterations, "Measured repetitions")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  command
      .add_option("-w,--warmup_iters", options.measure.warmup,
                  "Warm-up repetitions, which are not measured")
      ->check(CLI::Range(0, 1'000'000))
      ->capture_default_str();
  command.add_flag("--percentiles", options.percentiles, "Add columns for min, p90, p99 and max");
  command.add_flag("--link-bytes", options.measure.link_bytes,
                   "Add columns for the bytes on the interfaces");
  command.add_option("-J,--json", options.json_path, "Also write the results to this JSON file");
  add_session_options(command, options.session);
}

/// Adds an option that accepts the names of the enumeration values in `values`.
template <typename Value>
void add_named(CLI::App& command, const std::string& names, Value& value,
               const std::vector<Value>& values, const std::string& text) {
  std::map<std::string, Value> by_name;
  for (const Value one : values) by_name.emplace(to_string(one), one);
  command.add_option(names, value, text)
      ->transform(CLI::CheckedTransformer(by_name).description(""))
      ->default_str(to_string(value));
}

void add_reduction(CLI::App& command, Reduction& reduction) {
  std::vector<DataType> types;
  for (std::size_t t = 0; t < kDataTypes; ++t) types.push_back(static_cast<DataType>(t));
  add_named(command, "-d,--datatype", reduction.type, types, "Type of the elements");
  add_named(
      command, "-o,--op", reduction.operation,
      {ReduceOperation::sum, ReduceOperation::min, ReduceOperation::max, ReduceOperation::average},
      "Reduction of the elements");
}

Status check(const BenchOptions& options) {
  std::optional<DataType> element;
  if (reduces(options.operation)) element = options.reduction.type;
  return options.range.check(element);
}

std::vector<std::uint64_t> sizes(const BenchOptions& options) {
  if (options.operation == Operation::barrier) return {0};
  return options.range.sizes(reduces(options.operation) ? element_bytes(options.reduction.type)
                                                        : 1);
}

Result<BenchRow> measure_row(const BenchOptions& options, Session& session, std::uint64_t bytes) {
  BenchRow row;
  row.send_bytes = bytes;
  row.size_bytes = counts_all_blocks(options.operation) ? bytes * session.size() : bytes;
  ExerciseOptions exercise{.operation = options.operation,
                           .call = {.algorithm = Algorithm(options.session.algorithm)},
                           .root = options.root,
                           .send_bytes = bytes,
                           .reduction = options.reduction};
  if (has_both_places(options.operation)) {
    MeasureOptions without_link = options.measure;
    without_link.link_bytes = false;
    exercise.in_place = false;
    auto measured = measure(session, exercise, without_link);
    if (!measured) return measured.status();
    row.out_of_place = std::move(*measured);
    exercise.in_place = true;
  }
  auto measured = measure(session, exercise, options.measure);
  if (!measured) return measured.status();
  row.in_place = std::move(*measured);
  return row;
}

Status write_json(const BenchOptions& options, Session& session,
                  const std::vector<BenchRow>& rows) {
  if (options.json_path.empty() || !session.is_first()) return {};
  return write_json_file(options.json_path, to_json(options, session, rows));
}

Result<std::vector<BenchRow>> measure_rows(const BenchOptions& options, Session& session) {
  if (index(options.root) >= session.size()) {
    return failure(Code::invalid_argument, "--root {} is not a rank: use 0 to {}",
                   index(options.root), session.size() - 1);
  }
  if (session.is_first()) print_header(options, session);
  std::vector<BenchRow> rows;
  for (const std::uint64_t bytes : sizes(options)) {
    auto row = measure_row(options, session, bytes);
    if (!row) return row.status();
    if (session.is_first()) print_row(options, *row, session.size());
    rows.push_back(std::move(*row));
  }
  return rows;
}

int run(const BenchOptions& options) {
  const std::string name = std::string("bench ") + to_string(options.operation);
  if (Status status = check(options); !status) return complain(name, status);
  // All ranks sleep until a common start. The smallest timer slack keeps the kernel from prolonging
  // this sleep.
  prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
  auto session = Session::create(options.session);
  if (!session) return complain(name, session.status());
  auto rows = measure_rows(options, *session);
  if (!rows) return complain(name, rows.status());
  if (session->is_first()) print_summary(options, *rows);
  Status status = write_json(options, *session, *rows);
  if (Status end = session->finish(); status.ok()) status = end;
  if (!status) return complain(name, status);
  return wrong_bytes(*rows) == 0 ? kExitOk : kExitFailed;
}

void add_operation(CLI::App& bench, Operation operation, const char* text, int& exit_code) {
  CLI::App* command = bench.add_subcommand(to_string(operation), text);
  const auto options = std::make_shared<BenchOptions>();
  options->operation = operation;
  add_options(*command, *options);
  if (reduces(operation)) add_reduction(*command, options->reduction);
  if (has_root(operation)) {
    command->add_option_function<std::uint32_t>(
        "--root,-r", [options](const std::uint32_t& root) { options->root = rank_of(root); },
        "Rank that sends, or that gets the result (default: 0)");
  }
  command->callback([options, &exit_code] { exit_code = run(*options); });
}

}  // namespace

void add_bench_command(CLI::App& app, int& exit_code) {
  CLI::App* bench = app.add_subcommand(
      "bench", "Time and check a collective, as one process of a job (tutti run, lab, mpirun)");
  bench->require_subcommand(1);
  add_operation(*bench, Operation::broadcast, "Send one rank's message to all ranks", exit_code);
  add_operation(*bench, Operation::allgather, "Send every rank's block to all ranks", exit_code);
  add_operation(*bench, Operation::gather, "Send every rank's block to one rank", exit_code);
  add_operation(*bench, Operation::scatter, "Send one rank's blocks, one to each rank", exit_code);
  add_operation(*bench, Operation::alltoall, "Send a block from each rank to each rank", exit_code);
  add_operation(*bench, Operation::reduce, "Reduce all ranks' messages at one rank", exit_code);
  add_operation(*bench, Operation::reduce_scatter,
                "Reduce all ranks' blocks, one result at each rank", exit_code);
  add_operation(*bench, Operation::allreduce, "Reduce all ranks' messages at all ranks", exit_code);
  add_operation(*bench, Operation::barrier, "Wait for all ranks", exit_code);
}

}  // namespace tutti::app
