#include "run.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "base/error.hpp"
#include "local_job.hpp"
#include "runtime/bootstrap/store/socket.hpp"

namespace tutti::app {
namespace {

constexpr std::uint32_t kMaxProcesses = 4096;
constexpr std::uint16_t kDefaultPort = 29500;

Status check(const RunOptions& options) {
  if (options.program.empty()) {
    return failure(Code::invalid_argument,
                   "no program to run is given: use tutti run -n 4 -- program args");
  }
  if (options.count < 1 || options.count > kMaxProcesses) {
    return failure(Code::invalid_argument, "-n {} is out of range: use 1 to {}", options.count,
                   kMaxProcesses);
  }
  if (options.netns.find('/') != options.netns.npos) {
    return failure(Code::invalid_argument, "--netns {} is a path: use a name that `ip netns` lists",
                   options.netns);
  }
  if (!options.netns.empty() && options.master_addr.empty()) {
    return failure(
        Code::invalid_argument,
        "--netns needs --master-addr: add an address of rank 0 that all namespaces can reach");
  }
  return {};
}

/// A TCP port that is free at this moment. It is not reserved, because rank 0 will bind it.
Result<std::uint16_t> free_port() {
  const auto socket = runtime::listen_on({"127.0.0.1", 0});
  if (!socket.ok()) return socket.status();
  return runtime::bound_port(*socket);
}

Result<std::uint16_t> choose_port(const RunOptions& options) {
  if (options.master_port != 0) return options.master_port;
  if (!options.netns.empty()) return kDefaultPort;
  return free_port();
}

int not_started(const RunOptions& options, const Status& status) {
  const std::string text = "tutti run: " + status.message() + "\n";
  [[maybe_unused]] const ssize_t written = write(options.err_fd, text.data(), text.size());
  return kExitNotStarted;
}

Nanoseconds seconds(double value) {
  return std::chrono::duration_cast<Nanoseconds>(std::chrono::duration<double>(value));
}

struct Arguments {
  RunOptions options;
  bool no_prefix = false;
  double grace_s = 10;
  double timeout_s = 0;
};

}  // namespace

int run_command(const RunOptions& options) {
  Status status = check(options);
  if (!status.ok()) return not_started(options, status);
  const auto port = choose_port(options);
  if (!port.ok()) return not_started(options, port.status());
  LocalJob job(options);
  status = job.start(options.master_addr.empty() ? "127.0.0.1" : options.master_addr, *port);
  if (!status.ok()) return not_started(options, status);
  return job.wait();
}

void add_run_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("run", "Start a job of processes on this host");
  const auto arguments = std::make_shared<Arguments>();
  RunOptions& options = arguments->options;
  const double week_s = 7 * 24 * 3600;
  command->add_option("-n,--np", options.count, "Number of processes")
      ->required()
      ->check(CLI::Range(1u, kMaxProcesses));
  command->add_flag("--no-prefix", arguments->no_prefix,
                    "Print output unchanged, without the rank before each line");
  command
      ->add_option(
          "--grace", arguments->grace_s,
          "Seconds from the first failure until the other ranks get SIGTERM, and from SIGTERM "
          "until SIGKILL")
      ->check(CLI::Range(0.0, week_s))
      ->capture_default_str();
  command
      ->add_option("--timeout", arguments->timeout_s,
                   "Seconds after which the job is ended; 0: no limit")
      ->check(CLI::Range(0.0, week_s));
  command->add_option("--netns", options.netns,
                      "Network namespace of each rank; {} is replaced by the rank, as in "
                      "tutti-lab-h{}");
  command->add_option("--master-addr", options.master_addr,
                      "MASTER_ADDR of the job (default: 127.0.0.1; required with --netns)");
  command->add_option("--master-port", options.master_port,
                      "MASTER_PORT of the job (default: a free port, or 29500 with --netns)");
  command->add_option("program", options.program, "The program and its arguments, after --")
      ->required();
  command->callback([arguments, &exit_code] {
    arguments->options.prefix = !arguments->no_prefix;
    arguments->options.grace = seconds(arguments->grace_s);
    arguments->options.timeout = seconds(arguments->timeout_s);
    exit_code = run_command(arguments->options);
  });
}

}  // namespace tutti::app
