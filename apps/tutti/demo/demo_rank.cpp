#include "demo/demo_rank.hpp"

#include <fmt/format.h>
#include <sys/prctl.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "bench/measurement.hpp"
#include "exit_status.hpp"

namespace tutti::app {
namespace {

nlohmann::json to_json(const ExerciseOptions& exercise, const Measured& measured) {
  nlohmann::json ports = nlohmann::json::array();
  if (measured.link) {
    for (const auto& [sent, received] : measured.link->by_rank) {
      ports.push_back({{"sent", sent}, {"received", received}});
    }
  }
  return {{"operation", to_string(exercise.operation)},
          {"algorithm", to_string(exercise.call.algorithm)},
          {"send_bytes", exercise.send_bytes},
          {"p50_ns", measured.percentile_ns(50)},
          {"wrong_bytes", measured.wrong_bytes},
          {"checked", measured.checked},
          {"sent_bytes_by_rank", measured.sent_bytes_by_rank},
          {"ports", ports}};
}

Result<nlohmann::json> measure_all(const DemoRankOptions& options, Session& session) {
  const MeasureOptions measure_options{.iterations = options.iterations,
                                       .warmup = options.warmup,
                                       .check = true,
                                       .link_bytes = options.link_bytes};
  nlohmann::json results = nlohmann::json::array();
  for (const Operation operation : {Operation::allgather, Operation::broadcast}) {
    for (const Algorithm algorithm : {Algorithm::multicast, Algorithm::ring}) {
      const ExerciseOptions exercise{.operation = operation,
                                     .call = {.algorithm = algorithm},
                                     .send_bytes = operation == Operation::allgather
                                                       ? options.allgather_bytes
                                                       : options.broadcast_bytes};
      auto measured = measure(session, exercise, measure_options);
      if (!measured) return measured.status();
      results.push_back(to_json(exercise, *measured));
    }
  }
  return results;
}

int run(const DemoRankOptions& options) {
  prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
  // The demonstration compares traffic on the network, so it must not use shared memory.
  SessionOptions of_session;
  of_session.communicator.device_name = "ip";
  auto session = Session::create(of_session);
  if (!session) return complain("demo", session.status());
  auto results = measure_all(options, *session);
  if (!results) return complain("demo", results.status());
  if (session->is_first()) fmt::print("{}\n", results->dump());
  Status status = session->finish();
  return status.ok() ? kExitOk : complain("demo", status);
}

}  // namespace

void add_demo_rank_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("demo-rank", "One process of the demonstration");
  command->group("");
  const auto options = std::make_shared<DemoRankOptions>();
  command->add_option("--allgather-bytes", options->allgather_bytes)->required();
  command->add_option("--broadcast-bytes", options->broadcast_bytes)->required();
  command->add_option("--iterations", options->iterations)->check(CLI::Range(1, 1000));
  command->add_option("--warmup", options->warmup)->check(CLI::Range(0, 1000));
  command->add_flag("--link-bytes", options->link_bytes);
  command->callback([options, &exit_code] { exit_code = run(*options); });
}

}  // namespace tutti::app
