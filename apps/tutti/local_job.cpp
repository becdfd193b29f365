#include "local_job.hpp"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <optional>
#include <utility>

#include "base/error.hpp"
#include "crypto/secret.hpp"
#include "device/posix/descriptor.hpp"
#include "runtime/bootstrap/text.hpp"
#include "runtime/keys/job_key.hpp"

namespace tutti::app {
namespace {

void write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == EAGAIN) {
      pollfd entry{fd, POLLOUT, 0};
      poll(&entry, 1, -1);
      continue;
    }
    if (written < 0) return;  // the process that reads this output has closed its end
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

std::string in_place(std::string pattern, std::uint32_t rank) {
  for (std::size_t at = pattern.find("{}"); at != pattern.npos; at = pattern.find("{}", at)) {
    pattern.replace(at, 2, std::to_string(rank));
  }
  return pattern;
}

}  // namespace

LocalJob::LocalJob(const RunOptions& options)
    : options_(options),
      job_({.signals = {SIGINT, SIGTERM},
            .grace = options.grace,
            .kill_grace = options.grace,
            .timeout = options.timeout},
           *this) {}

Status LocalJob::start(const std::string& master_addr, std::uint16_t master_port) {
  const auto run = runtime::random_hex(16);
  if (!run) return run.status();
  const auto key = runtime::random_hex(crypto::Secret::kBytes);
  if (!key) return key.status();
  const bool apart = options_.netns.find("{}") != options_.netns.npos;
  for (std::uint32_t rank = 0; rank < options_.count; ++rank) {
    const Status status = start_rank(
        rank, {fmt::format("RANK={}", rank), fmt::format("WORLD_SIZE={}", options_.count),
               fmt::format("LOCAL_RANK={}", apart ? 0 : rank),
               fmt::format("LOCAL_WORLD_SIZE={}", apart ? 1 : options_.count),
               "MASTER_ADDR=" + master_addr, fmt::format("MASTER_PORT={}", master_port),
               "TUTTI_RUN_ID=" + *run, fmt::format("{}={}", runtime::kJobKeyVariable, *key)});
    if (!status.ok()) return failure(status.code(), "rank {}: {}", rank, status.message());
  }
  return {};
}

Status LocalJob::start_rank(std::uint32_t rank, std::vector<std::string> variables) {
  launch::SpawnRequest child;
  child.arguments = options_.program;
  child.environment = launch::environment_with(std::move(variables));
  child.output = options_.out_fd;
  child.error = options_.err_fd;
  child.signal_mask = job_.mask_before();
  device::Descriptor network;
  if (!options_.netns.empty()) {
    const std::string path = "/run/netns/" + in_place(options_.netns, rank);
    network = device::Descriptor(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!network.valid()) return system_failure(errno, "cannot open network namespace {}", path);
    child.place.network = network.get();
  }
  std::optional<std::string> prefix;
  if (options_.prefix) prefix = fmt::format("[{}] ", rank);
  return job_.start(static_cast<int>(rank), std::move(child), prefix);
}

int LocalJob::wait() {
  job_.wait();
  const auto& failure = job_.first_failure();
  if (job_.timed_out() && !failed_before_timeout_) return kExitTimeout;
  return failure ? failure->exit_status : 0;
}

void LocalJob::on_output(int /*rank*/, bool is_error, std::string_view lines) {
  write_all(is_error ? options_.err_fd : options_.out_fd, lines);
}

void LocalJob::on_first_failure(const launch::FirstFailure& failure) {
  if (job_.timed_out()) return;
  const int signal_number = failure.exit_status - 128;
  const std::string how =
      failure.by_signal
          ? fmt::format("was ended by signal {} ({})", signal_number, strsignal(signal_number))
          : fmt::format("exited with status {}", failure.exit_status);
  const std::string others =
      failure.grace_for_others
          ? fmt::format("; the others have {} to end", runtime::describe_duration(options_.grace))
          : "";
  say(fmt::format("rank {} (process {}) {}{}", failure.rank, failure.process, how, others));
}

void LocalJob::on_signal(int number, bool again) {
  say(fmt::format("{}: {}", strsignal(number),
                  again ? "killing all ranks" : "forwarded to all ranks"));
}

void LocalJob::on_timeout() {
  failed_before_timeout_ = job_.first_failure().has_value();
  say(fmt::format("the job took longer than {}: ending it",
                  runtime::describe_duration(options_.timeout)));
}

void LocalJob::say(const std::string& text) const {
  write_all(options_.err_fd, "tutti run: " + text + "\n");
}

}  // namespace tutti::app
