#include "lab/runner.hpp"

#include <chrono>
#include <csignal>
#include <cstdio>

#include "base/error.hpp"
#include "crypto/secret.hpp"
#include "launch/job.hpp"
#include "launch/process.hpp"
#include "runtime/bootstrap/text.hpp"
#include "runtime/keys/job_key.hpp"

namespace tutti::lab {

namespace {

using std::chrono::milliseconds;

/// Time from SIGTERM to SIGKILL for a rank that still runs.
constexpr milliseconds kKillGrace{3000};
constexpr int kTimedOutStatus = 124;

/// Passes each line that a rank writes to RunOptions::on_line. If `on_line` is unset, writes the
/// line to the standard output or error of this process.
class Output : public launch::JobObserver {
 public:
  explicit Output(const RunOptions& options) : options_(options) {}

  void on_output(int rank, bool is_error, std::string_view lines) override {
    if (!options_.on_line) {
      std::FILE* file = is_error ? stderr : stdout;
      std::fwrite(lines.data(), 1, lines.size(), file);
      std::fflush(file);
      return;
    }
    for (std::size_t end = 0; (end = lines.find('\n')) != lines.npos;) {
      options_.on_line(rank, is_error, lines.substr(0, end));
      lines.remove_prefix(end + 1);
    }
  }

 private:
  const RunOptions& options_;
};

/// The environment of one rank: the variables of `options`, those that the lab sets and those of
/// the caller. Of several variables with the same name, the first in this order applies.
std::vector<std::string> environment_of(const Lab& lab, const RunOptions& options,
                                        const std::string& key, int rank) {
  std::vector<std::string> ours = options.environment;
  const std::initializer_list<std::string> defaults{
      fmt::format("RANK={}", rank),
      fmt::format("WORLD_SIZE={}", lab.hosts() * options.ranks_per_host),
      fmt::format("LOCAL_RANK={}", rank % options.ranks_per_host),
      fmt::format("LOCAL_WORLD_SIZE={}", options.ranks_per_host),
      fmt::format("MASTER_ADDR={}", lab.address(0)),
      fmt::format("MASTER_PORT={}", options.master_port),
      fmt::format("{}={}", runtime::kJobKeyVariable, key),
      "TUTTI_INTERFACE=eth0",
  };
  ours.insert(ours.end(), defaults);
  return launch::environment_with(std::move(ours));
}

launch::JobPolicy policy_of(const RunOptions& options) {
  launch::JobPolicy policy;
  if (options.handle_signals) policy.signals = {SIGINT, SIGTERM, SIGHUP};
  policy.signal_ends = true;
  policy.grace = milliseconds(options.grace_ms);
  policy.kill_grace = kKillGrace;
  policy.timeout = milliseconds(options.timeout_ms);
  return policy;
}

Status start_ranks(launch::Job& job, const Lab& lab, const RunOptions& options) {
  const auto key = runtime::random_hex(crypto::Secret::kBytes);
  if (!key) return key.status();
  for (int rank = 0; rank < lab.hosts() * options.ranks_per_host; ++rank) {
    launch::SpawnRequest request;
    request.arguments = options.arguments;
    request.environment = environment_of(lab, options, *key, rank);
    Result<launch::SpawnRequest> placed =
        lab.request_on(rank / options.ranks_per_host, std::move(request));
    if (!placed) return placed.status();
    const std::string prefix = options.on_line ? "" : fmt::format("[{}] ", rank);
    const Status status = job.start(rank, std::move(*placed), prefix);
    if (!status) return failure(status.code(), "rank {}: {}", rank, status.message());
  }
  return {};
}

RunReport report_of(const launch::Job& job) {
  RunReport report;
  report.exit_statuses = job.exit_statuses();
  if (const auto& failure = job.first_failure()) {
    report.first_failed = failure->rank;
    report.exit_status = failure->exit_status;
  }
  report.timed_out = job.timed_out();
  report.interrupted_by = job.interrupted_by();
  if (report.timed_out) report.exit_status = kTimedOutStatus;
  if (report.interrupted_by != 0) report.exit_status = 128 + report.interrupted_by;
  report.seconds = std::chrono::duration<double>(job.duration()).count();
  return report;
}

}  // namespace

Result<RunReport> run_ranks(const Lab& lab, const RunOptions& options) {
  if (options.arguments.empty()) {
    return failure(Code::invalid_argument, "no program to run is given: name one after --");
  }
  Result<std::vector<PortBytes>> before = lab.port_bytes();
  if (!before) return before.status();
  Output output(options);
  launch::Job job(policy_of(options), output);
  if (Status status = start_ranks(job, lab, options); !status) return status;
  job.wait();
  Result<std::vector<PortBytes>> after = lab.port_bytes();
  if (!after) return after.status();
  RunReport report = report_of(job);
  for (std::size_t i = 0; i < after->size(); ++i) {
    report.traffic.push_back((*after)[i].since((*before)[i]));
  }
  return report;
}

}  // namespace tutti::lab
