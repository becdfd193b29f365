#include "lab/lab_command.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "lab/aggregators.hpp"
#include "lab/cores.hpp"
#include "lab/lab.hpp"
#include "lab/runner.hpp"
#include "lab/state.hpp"
#include "output_file.hpp"

namespace tutti::lab {

namespace {

constexpr int kUsageError = 2;

/// The options that describe a lab, as typed; options_from() parses the texts and returns
/// LabOptions.
struct TypedOptions {
  LabOptions options;
  std::string core_shares = "traffic";
  std::string rate = "off";
  std::string burst = "auto";
  std::string segmentation = "auto";
  std::string loss;
  std::string shared_loss;
  std::string burst_loss;
  std::string duplicate;
  std::string reorder;
  std::string corrupt;
  std::string loss_protocol = "all";
};

struct TypedRun {
  TypedOptions lab;
  RunOptions run;
  double grace_s = 10;
  double timeout_s = 0;
  bool stats = false;
  std::string json_path;
};

int complain(const Status& status) {
  fmt::print(stderr, "tutti lab: {}\n", status.to_string());
  return status.code() == Code::invalid_argument ? kUsageError : 1;
}

/// Parses a percentage such as "10" or "10%"; empty text is 0.
Result<double> parse_percent(const char* option, const std::string& text) {
  if (text.empty()) return 0.0;
  std::size_t used = 0;
  double percent = 0;
  try {
    percent = std::stod(text, &used);
  } catch (const std::exception&) {
    used = 0;
  }
  if (used > 0 && (used == text.size() || text.substr(used) == "%")) return percent;
  return failure(Code::invalid_argument, "{} '{}' is not a percentage: use a number such as 0.5",
                 option, text);
}

Result<std::uint32_t> parse_burst(const std::string& text) {
  if (text == "auto") return std::uint32_t{0};
  std::size_t used = 0;
  unsigned long value = 0;
  try {
    value = std::stoul(text, &used);
  } catch (const std::exception&) {
    used = 0;
  }
  const std::string unit = text.substr(used);
  const unsigned long scale = unit == "kb" ? 1024 : unit == "mb" ? 1024 * 1024 : 1;
  constexpr unsigned long kLargest = 64UL * 1024 * 1024;
  const bool understood = used > 0 && (scale > 1 || unit.empty() || unit == "b");
  if (understood && value > 0 && value <= kLargest / scale) {
    return static_cast<std::uint32_t>(value * scale);
  }
  return failure(Code::invalid_argument,
                 "burst '{}' is not a size up to 64mb: use auto, or a size such as 4096 or 128kb",
                 text);
}

Result<Impairments> impairments_from(const TypedOptions& typed) {
  Impairments impairments = typed.options.impairments;
  struct Percent {
    const char* option;
    const std::string* text;
    double* value;
  };
  const std::vector<Percent> percents{
      {"--loss", &typed.loss, &impairments.loss_percent},
      {"--shared-loss", &typed.shared_loss, &impairments.shared_loss_percent},
      {"--duplicate", &typed.duplicate, &impairments.duplicate_percent},
      {"--reorder", &typed.reorder, &impairments.reorder_percent},
      {"--corrupt", &typed.corrupt, &impairments.corrupt_percent}};
  for (const Percent& percent : percents) {
    Result<double> value = parse_percent(percent.option, *percent.text);
    if (!value) return value.status();
    *percent.value = *value;
  }
  if (!typed.burst_loss.empty()) {
    Result<BurstLoss> burst_loss = parse_burst_loss(typed.burst_loss);
    if (!burst_loss) return burst_loss.status();
    impairments.burst_loss = *burst_loss;
  }
  impairments.loss_protocol = loss_protocol_named(typed.loss_protocol);
  return impairments;
}

Result<LabOptions> options_from(const TypedOptions& typed) {
  LabOptions options = typed.options;
  options.core_shares = core_shares_named(typed.core_shares);
  if (typed.segmentation != "auto") options.segmentation = typed.segmentation == "on";
  Result<std::uint64_t> rate = parse_rate(typed.rate);
  if (!rate) return rate.status();
  options.rate_bits_per_second = *rate;
  Result<std::uint32_t> burst = parse_burst(typed.burst);
  if (!burst) return burst.status();
  options.burst_bytes = *burst;
  Result<Impairments> impairments = impairments_from(typed);
  if (!impairments) return impairments.status();
  options.impairments = *impairments;
  if (Status status = check_options(options); !status) return status;
  return options;
}

void add_name(CLI::App& command, std::string& name, const char* text) {
  command.add_option("--name", name, text);
}

/// Adds the options that describe a lab. Returns them, so that `tutti lab run` can refuse them
/// together with --lab.
std::vector<CLI::Option*> add_build_options(CLI::App& command, TypedOptions& typed) {
  std::vector<CLI::Option*> options{
      command.add_option("--hosts", typed.options.hosts, "Number of hosts")->capture_default_str(),
      command.add_option("--aggregators", typed.options.aggregators,
                         "Number of aggregators at the switch, with unshaped ports; `run` starts "
                         "`tutti aggregator` for each"),
      command
          .add_option(
              "--cores", typed.core_shares,
              "How to divide the cores if hosts and aggregators outnumber them: traffic (by "
              "the bytes of an Allreduce) or hosts (for programs that mainly compute)")
          ->check(CLI::IsMember({"traffic", "hosts"}))
          ->capture_default_str(),
      command.add_option("--mtu", typed.options.mtu, "Size of the largest packet in bytes")
          ->capture_default_str(),
      command
          .add_option("--rate", typed.rate,
                      "Rate of each link in each direction, such as 100mbit or 1gbit, or off")
          ->capture_default_str(),
      command
          .add_option("--burst", typed.burst, "Burst of the shapers: auto, or a size such as 128kb")
          ->capture_default_str(),
      command
          .add_option(
              "--segmentation", typed.segmentation,
              "Packets of many datagrams (GSO) on the links: on, off, or auto (off only with "
              "impairments)")
          ->check(CLI::IsMember({"auto", "on", "off"})),
      command.add_option("--congestion", typed.options.congestion_control,
                         "Congestion control of TCP, such as cubic"),
      command.add_option("--loss", typed.loss,
                         "Percent of packets lost, independently at each receiver"),
      command.add_option("--shared-loss", typed.shared_loss,
                         "Percent of packets lost near the sender, for all receivers together"),
      command.add_option(
          "--burst-loss", typed.burst_loss,
          "ENTER%,LEAVE%: probability per datagram to enter and to leave a run of losses"),
      command
          .add_option("--loss-proto", typed.loss_protocol,
                      "Traffic that loss applies to: all (UDP and TCP), udp, or multicast (of UDP)")
          ->check(CLI::IsMember({"all", "udp", "multicast"})),
      command.add_option("--duplicate", typed.duplicate, "Percent of UDP that arrives twice"),
      command.add_option("--reorder", typed.reorder, "Percent of UDP that arrives late"),
      command.add_option("--corrupt", typed.corrupt,
                         "Percent of UDP with one payload byte changed"),
      command
          .add_option("--impair-hosts", typed.options.impairments.only_hosts,
                      "Hosts with impaired links, such as 0,2 (default: all)")
          ->delimiter(','),
      command.add_flag("--ipv6", typed.options.ipv6, "Add IPv6 addresses")};
  for (CLI::Option* option : options) option->group("Fabric");
  return options;
}

std::string rate_text(std::uint64_t bits_per_second) {
  if (bits_per_second == 0) return "not shaped";
  return fmt::format("{:g} Mbit/s", static_cast<double>(bits_per_second) / 1e6);
}

void print_lab(const Lab& lab) {
  const LabOptions& options = lab.options();
  fmt::print("lab {}: {} hosts, mtu {}, {}, segmentation {}\n", lab.name(), lab.hosts(),
             options.mtu, rate_text(options.rate_bits_per_second),
             segmentation_of(options) ? "on" : "off");
  for (int host = 0; host < lab.hosts(); ++host) {
    fmt::print("  {}  {}{}{}\n", lab.host_namespace(host), lab.address(host),
               options.ipv6 ? "  " : "", options.ipv6 ? lab.address6(host) : "");
  }
  for (int one = 0; one < lab.aggregators(); ++one) {
    fmt::print("  {}  {}  aggregator\n", lab.aggregator_namespace(one),
               lab.aggregator_address(one));
  }
  fmt::print("  {}  switch\n", lab.switch_namespace());
}

void print_ports(const std::vector<PortBytes>& ports) {
  fmt::print("{:>5} {:>16} {:>12} {:>16} {:>12} {:>11}\n", "host", "tx bytes", "tx packets",
             "rx bytes", "rx packets", "queue drops");
  for (const PortBytes& port : ports) {
    fmt::print("{:>5} {:>16} {:>12} {:>16} {:>12} {:>11}\n", port.host, port.tx_bytes,
               port.tx_packets, port.rx_bytes, port.rx_packets, port.queue_drops);
  }
}

nlohmann::json ports_json(const std::vector<PortBytes>& ports) {
  nlohmann::json list = nlohmann::json::array();
  for (const PortBytes& port : ports) {
    list.push_back({{"host", port.host},
                    {"tx_bytes", port.tx_bytes},
                    {"tx_packets", port.tx_packets},
                    {"rx_bytes", port.rx_bytes},
                    {"rx_packets", port.rx_packets},
                    {"queue_drops", port.queue_drops}});
  }
  return list;
}

Status write_report(const TypedRun& typed, const Lab& lab, const RunReport& report) {
  if (typed.stats) print_ports(report.traffic);
  if (typed.json_path.empty()) return {};
  const LabOptions& options = lab.options();
  return app::write_json_file(typed.json_path,
                              {{"lab", lab.name()},
                               {"hosts", options.hosts},
                               {"mtu", options.mtu},
                               {"rate_bits_per_second", options.rate_bits_per_second},
                               {"segmentation", segmentation_of(options)},
                               {"arguments", typed.run.arguments},
                               {"seconds", report.seconds},
                               {"exit_status", report.exit_status},
                               {"exit_statuses", report.exit_statuses},
                               {"first_failed", report.first_failed},
                               {"links", ports_json(report.traffic)}});
}

void explain_end(const RunReport& report) {
  if (report.interrupted_by != 0) {
    fmt::print(stderr, "tutti lab: interrupted by signal {}\n", report.interrupted_by);
  } else if (report.timed_out) {
    fmt::print(stderr, "tutti lab: the time limit passed and the ranks were ended\n");
  } else if (report.first_failed >= 0) {
    fmt::print(stderr, "tutti lab: rank {} failed first, with status {}\n", report.first_failed,
               report.exit_status);
  }
}

int up(const TypedOptions& typed) {
  Result<LabOptions> options = options_from(typed);
  if (!options) return complain(options.status());
  options->persistent = true;
  if (options->name.empty()) options->name = "lab";
  Result<Lab> lab = Lab::create(*options);
  if (!lab) return complain(lab.status());
  print_lab(*lab);
  return 0;
}

Result<Lab> lab_for(const TypedRun& typed) {
  const std::string& name = typed.lab.options.name;
  if (!name.empty()) return Lab::attach(name);
  Result<LabOptions> options = options_from(typed.lab);
  if (!options) return options.status();
  return Lab::create(*options);
}

int run(const TypedRun& typed) {
  remove_abandoned_labs();
  Result<Lab> lab = lab_for(typed);
  if (!lab) return complain(lab.status());
  RunOptions options = typed.run;
  Result<Aggregators> aggregators = Aggregators::start(*lab, "/proc/self/exe");
  if (!aggregators) return complain(aggregators.status());
  const std::vector<std::string> first = aggregators->environment();
  options.environment.insert(options.environment.begin(), first.begin(), first.end());
  options.grace_ms = static_cast<int>(typed.grace_s * 1000);
  options.timeout_ms = static_cast<int>(typed.timeout_s * 1000);
  options.handle_signals = true;
  Result<RunReport> report = run_ranks(*lab, options);
  if (!report) return complain(report.status());
  explain_end(*report);
  const std::string work = aggregators->end();
  if (typed.stats && lab->aggregators() > 0) fmt::print("aggregators:\n{}", work);
  if (Status status = write_report(typed, *lab, *report); !status) return complain(status);
  return report->exit_status;
}

int stats(const std::string& name, const std::string& json_path) {
  Result<Lab> lab = Lab::attach(name);
  if (!lab) return complain(lab.status());
  Result<std::vector<PortBytes>> ports = lab->port_bytes();
  if (!ports) return complain(ports.status());
  print_ports(*ports);
  if (json_path.empty()) return 0;
  Status status = app::write_json_file(json_path, {{"lab", name}, {"links", ports_json(*ports)}});
  return status.ok() ? 0 : complain(status);
}

/// How many of a lab's hosts and aggregators a job uses; unset: all of them.
struct PlacesInUse {
  std::optional<int> hosts;
  std::optional<int> aggregators;
};

int print_cores(const std::string& name, const PlacesInUse& in_use) {
  Result<Lab> lab = Lab::attach(name);
  if (!lab) return complain(lab.status());
  const int hosts = in_use.hosts.value_or(lab->hosts());
  const int aggregators = in_use.aggregators.value_or(lab->aggregators());
  const auto too_many = [&name](const char* what, int asked, int present) {
    return failure(Code::invalid_argument,
                   "--{0} {1} is more than the {2} {0} of lab '{3}': use at most {2}", what, asked,
                   present, name);
  };
  if (hosts > lab->hosts()) return complain(too_many("hosts", hosts, lab->hosts()));
  if (aggregators > lab->aggregators())
    return complain(too_many("aggregators", aggregators, lab->aggregators()));
  int number = 0;
  for (const cpu_set_t& share : shares_of_cores(hosts, aggregators, lab->options().core_shares)) {
    std::vector<int> cores;
    for (int core = 0; core < CPU_SETSIZE; ++core) {
      if (CPU_ISSET(core, &share)) cores.push_back(core);
    }
    fmt::print(
        "{}={}\n",
        number < hosts ? lab->host_namespace(number) : lab->aggregator_namespace(number - hosts),
        fmt::join(cores, ","));
    ++number;
  }
  return 0;
}

int down_one(const LabState& state) {
  const std::string& name = state.options.name;
  if (!state.options.persistent) {
    return complain(failure(Code::invalid_argument,
                            "lab '{}' is temporary and cannot be taken down: end process {}", name,
                            state.owner));
  }
  if (state.owner != 0) {
    return complain(failure(Code::invalid_argument,
                            "lab '{}' is still being built by process {}: try again later", name,
                            state.owner));
  }
  if (Status status = remove_lab(name); !status) return complain(status);
  fmt::print("lab {} is down\n", name);
  return 0;
}

int down(const std::string& name, bool all) {
  remove_abandoned_labs();
  if (!all) {
    Result<LabState> state = recorded(name);
    return state ? down_one(*state) : complain(state.status());
  }
  int worst = 0;
  for (const LabState& state : all_recorded()) {
    if (state.options.persistent) worst = std::max(worst, down_one(state));
  }
  return worst;
}

int list() {
  for (const std::string& name : remove_abandoned_labs()) {
    fmt::print(stderr, "tutti lab: removed the remains of lab '{}', whose owner was killed\n",
               name);
  }
  for (const LabState& state : all_recorded()) {
    const LabOptions& options = state.options;
    const std::string life =
        options.persistent ? "persistent" : fmt::format("of process {}", state.owner);
    fmt::print("{:<24} {:>3} hosts  mtu {:<5}  {:<14}  {}\n", options.name, options.hosts,
               options.mtu, rate_text(options.rate_bits_per_second), life);
  }
  return 0;
}

int check() {
  const LabSupport support = lab_support();
  const std::vector<std::pair<const char*, const Status*>> abilities{
      {"temporary lab (run)", &support.temporary},
      {"persistent lab (up)", &support.persistent},
      {"link rates", &support.shaping},
      {"segmentation off", &support.offload},
      {"loss, corruption", &support.loss},
      {"duplicates, reordering", &support.detour}};
  for (const auto& [ability, status] : abilities) {
    fmt::print("{:<24} {}\n", ability, status->ok() ? "yes" : "no: " + status->message());
  }
  return support.temporary.ok() ? 0 : 1;
}

void add_up(CLI::App& lab, int& exit_code) {
  auto typed = std::make_shared<TypedOptions>();
  CLI::App* command = lab.add_subcommand("up", "Build a lab that stays until `down` (needs root)");
  add_name(*command, typed->options.name, "Name of the lab: a-z, 0-9, '-' (default: lab)");
  add_build_options(*command, *typed);
  command->callback([typed, &exit_code] { exit_code = up(*typed); });
}

void add_run(CLI::App& lab, int& exit_code) {
  auto typed = std::make_shared<TypedRun>();
  CLI::App* command = lab.add_subcommand(
      "run", "Run a program on each host of a temporary lab, or of a lab that is up");
  CLI::Option* name =
      command->add_option("--name", typed->lab.options.name, "Name of a lab that is up");
  for (CLI::Option* option : add_build_options(*command, typed->lab)) name->excludes(option);
  command->add_option("--env", typed->run.environment, "NAME=VALUE for every rank; may be repeated")
      ->take_all()
      ->allow_extra_args(false);
  command->add_option("--master-port", typed->run.master_port, "MASTER_PORT of the ranks")
      ->check(CLI::Range(1, 65535))
      ->capture_default_str();
  command->add_option("--ranks-per-host", typed->run.ranks_per_host, "Ranks on each host")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  command
      ->add_option("--grace-s", typed->grace_s,
                   "Seconds from the first failure until the other ranks are ended")
      ->check(CLI::Range(0.0, 86400.0))
      ->capture_default_str();
  command->add_option("--timeout-s", typed->timeout_s, "Seconds for the whole run; 0: no limit")
      ->check(CLI::Range(0.0, 86400.0));
  command->add_flag("--stats", typed->stats, "Print the traffic of each host's link");
  command->add_option("--json", typed->json_path,
                      "Write the result and the links' traffic to this JSON file");
  command->add_option("program", typed->run.arguments, "The program and its arguments, after --")
      ->required();
  command->callback([typed, &exit_code] { exit_code = run(*typed); });
}

void add_cores(CLI::App& lab, int& exit_code) {
  auto name = std::make_shared<std::string>("lab");
  auto in_use = std::make_shared<PlacesInUse>();
  CLI::App* command = lab.add_subcommand(
      "cores", "Print the cores of each host and aggregator, as NAME=0,1, for other launchers");
  add_name(*command, *name, "Name of the lab (default: lab)");
  command->add_option("--hosts", in_use->hosts, "Number of hosts that the job uses (default: all)")
      ->check(CLI::PositiveNumber);
  command
      ->add_option("--aggregators", in_use->aggregators,
                   "Number of aggregators that the job uses (default: all)")
      ->check(CLI::NonNegativeNumber);
  command->callback([=, &exit_code] { exit_code = print_cores(*name, *in_use); });
}

void add_others(CLI::App& lab, int& exit_code) {
  auto name = std::make_shared<std::string>("lab");
  auto json_path = std::make_shared<std::string>();
  auto all = std::make_shared<bool>(false);
  CLI::App* stats_command = lab.add_subcommand("stats", "Print the traffic of each host's link");
  add_name(*stats_command, *name, "Name of the lab (default: lab)");
  stats_command->add_option("--json", *json_path, "Also write the traffic to this JSON file");
  stats_command->callback([=, &exit_code] { exit_code = stats(*name, *json_path); });

  CLI::App* down_command = lab.add_subcommand("down", "Remove a lab and end the programs in it");
  add_name(*down_command, *name, "Name of the lab (default: lab)");
  down_command->add_flag("--all", *all, "Remove every persistent lab");
  down_command->callback([=, &exit_code] { exit_code = down(*name, *all); });

  CLI::App* list_command = lab.add_subcommand("list", "List the labs");
  list_command->callback([&exit_code] { exit_code = list(); });
  CLI::App* check_command =
      lab.add_subcommand("check", "Show which features of a lab this machine supports");
  check_command->callback([&exit_code] { exit_code = check(); });
}

}  // namespace

void add_lab_command(CLI::App& app, int& exit_code) {
  CLI::App* lab =
      app.add_subcommand("lab", "Build a lab: hosts as network namespaces on a multicast switch");
  lab->require_subcommand(1);
  add_up(*lab, exit_code);
  add_run(*lab, exit_code);
  add_cores(*lab, exit_code);
  add_others(*lab, exit_code);
}

}  // namespace tutti::lab
