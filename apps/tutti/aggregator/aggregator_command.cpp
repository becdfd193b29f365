#include "aggregator/aggregator_command.hpp"

#include <fmt/format.h>
#include <signal.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>

#include "base/error.hpp"
#include "exit_status.hpp"
#include "runtime/aggregator/aggregator_service.hpp"

namespace tutti::app {
namespace {

struct Arguments {
  std::string listen;
  std::string key_file;
  std::uint64_t memory_mib = 1024;
  runtime::AggregatorOptions options;
};

/// Waits for a signal that ends the program. All threads block these signals, so that only wait()
/// receives them. After wait() a further signal ends the process at once.
class EndSignals {
 public:
  EndSignals() {
    sigemptyset(&signals_);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&signals_, signal);
    pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
  }
  void wait() const {
    int signal = 0;
    while (sigwait(&signals_, &signal) != 0) {
    }
    pthread_sigmask(SIG_UNBLOCK, &signals_, nullptr);
  }

 private:
  sigset_t signals_{};
};

/// Parses "host:port"; port 0 asks for any free port.
Result<runtime::Endpoint> listening_at(const std::string& text) {
  constexpr std::string_view kFree = ":0";
  if (!text.ends_with(kFree)) return runtime::parse_endpoint(text);
  auto endpoint = runtime::parse_endpoint(text.substr(0, text.size() - kFree.size()) + ":1");
  if (endpoint) endpoint->port = 0;
  return endpoint;
}

void say(const std::string& line) {
  std::fputs((line + "\n").c_str(), stdout);
  std::fflush(stdout);
}

void print_work(const runtime::AggregatorService& service) {
  for (const auto& [name, value] : service.counters()) {
    const bool printed = name.starts_with("in_network_") || name == "connections_refused";
    if (printed && value > 0) say(fmt::format("{} {}", name, value));
  }
}

int serve(Arguments& arguments) {
  const EndSignals signals;
  const auto endpoint = listening_at(arguments.listen);
  if (!endpoint) return complain("aggregator", endpoint.status());
  auto key = runtime::find_service_key(arguments.key_file);
  if (!key) return complain("aggregator", key.status());
  arguments.options.listen = *endpoint;
  arguments.options.key = std::move(*key);
  arguments.options.memory_bytes = arguments.memory_mib << 20;
  arguments.options.log = say;
  auto service = runtime::AggregatorService::start(std::move(arguments.options));
  if (!service) return complain("aggregator", service.status());
  say("listening on " + to_string(runtime::Endpoint{endpoint->host, (*service)->port()}));
  signals.wait();
  print_work(**service);
  service->reset();
  return kExitOk;
}

}  // namespace

void add_aggregator_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "aggregator", "Reduce at the switch for jobs that name this process in TUTTI_AGGREGATORS");
  const auto arguments = std::make_shared<Arguments>();
  engine::WindowConfig& terms = arguments->options.terms;
  command
      ->add_option("--listen", arguments->listen,
                   "HOST:PORT for requests of jobs; port 0 selects a free port")
      ->required();
  command->add_option("--interface", arguments->options.interface,
                      "Interface of the jobs' traffic, by name or address (default: "
                      "TUTTI_INTERFACE, else chosen by the library)");
  command->add_option(
      "--key-file", arguments->key_file,
      "File with the key shared with the jobs, 16 bytes or more, not readable by others (default: "
      "the file in TUTTI_AGGREGATOR_KEY_FILE, else the key in TUTTI_AGGREGATOR_KEY)");
  command
      ->add_option("--memory-mib", arguments->memory_mib,
                   "Memory in MiB for the windows of all jobs")
      ->check(CLI::Range(1u, 1u << 20))
      ->capture_default_str();
  command
      ->add_option("--jobs", arguments->options.jobs, "Largest number of communicators at a time")
      ->check(CLI::Range(1u, 4096u))
      ->capture_default_str();
  command
      ->add_option("--segment", terms.segment_bytes, "Bytes of a segment, which is reduced at once")
      ->capture_default_str();
  command->add_option("--slots", terms.slots, "Number of window slots of each rank")
      ->capture_default_str();
  command->add_option("--pulses", terms.pulses, "Number of credit batches in a window")
      ->capture_default_str();
  command
      ->add_option("--group", terms.group_bytes,
                   "Bytes of an Allreduce result that are sent at once")
      ->capture_default_str();
  command->callback([arguments, &exit_code] { exit_code = serve(*arguments); });
}

}  // namespace tutti::app
