#include "session.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/socket.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.hpp"
#include "collectives/registry.hpp"
#include "device/ip/interface.hpp"
#include "runtime/bootstrap/detect.hpp"
#include "runtime/communicator/create.hpp"
#include "runtime/diagnostics/identity.hpp"

namespace tutti::app {
namespace {

constexpr Nanoseconds kExchangeTimeout = std::chrono::seconds(60);

/// Returns an error text if no collective has an algorithm of this name, otherwise "". A collective
/// that lacks the algorithm fails only when it is called.
std::string check_algorithm(const std::string& name) {
  std::set<std::string> known{"automatic", "ring", "hierarchical", "in_network", "in_network_ring"};
  for (const auto& entry : collectives::algorithms()) known.emplace(entry.name);
  if (known.count(name) != 0) return {};
  return fmt::format("algorithm '{}' is not known: use one of {}", name, fmt::join(known, ", "));
}

/// The name of the interface that a communicator with these options uses; empty if there is none.
std::string interface_name(const CommunicatorOptions& options, bool local_only) {
  std::string wanted = options.interface;
  if (const char* name = std::getenv("TUTTI_INTERFACE"); wanted.empty() && name != nullptr) {
    wanted = name;
  }
  const int family = options.ipv6 ? AF_INET6 : AF_INET;
  const auto found = device::ip::choose_interface(wanted, local_only, family);
  return found ? found->name : "";
}

constexpr const char* kOptionGroup = "Communicator";

void add_network_options(CLI::App& command, CommunicatorOptions& communicator) {
  command
      .add_option("--multicast", communicator.multicast,
                  "ud: a chunk is one datagram; uc: a chunk is one message of several datagrams; "
                  "none: no multicast (default: TUTTI_MULTICAST, else ud)")
      ->check(CLI::IsMember({"ud", "uc", "none"}))
      ->group(kOptionGroup);
  command
      .add_option("--multicast-hops", communicator.multicast_hops,
                  "Hop limit (TTL) of multicast; 1 keeps multicast inside the subnet (default: "
                  "TUTTI_MULTICAST_HOPS, else 1)")
      ->check(CLI::Range(1u, 255u))
      ->group(kOptionGroup);
  command
      .add_option("--max-connections", communicator.max_connections,
                  "Largest number of connections of a rank at a time, 2 or more (default: "
                  "TUTTI_MAX_CONNECTIONS, else no limit)")
      ->group(kOptionGroup);
  command
      .add_option(
          "--traffic-class", communicator.traffic_class,
          "Code point of datagrams, such as 46; 46/5 also sets their priority in this host; "
          "8,0,46 has the values for calls of low, normal and high priority (default: "
          "TUTTI_TRAFFIC_CLASS)")
      ->group(kOptionGroup);
  command
      .add_flag("--require-multicast", communicator.require_multicast,
                "Fail if the network does not pass multicast between all ranks (default: "
                "TUTTI_REQUIRE_MULTICAST)")
      ->group(kOptionGroup);
}

}  // namespace

std::string to_string(Algorithm algorithm) {
  return algorithm == Algorithm::automatic ? "automatic" : std::string(algorithm.name());
}

void add_session_options(CLI::App& command, SessionOptions& options) {
  CommunicatorOptions& communicator = options.communicator;
  const auto add = [&](CLI::Option* option) { option->group(kOptionGroup); };
  add(command
          .add_option_function<std::string>(
              "--algorithm",
              [&options](const std::string& name) {
                options.algorithm = name == "automatic" ? "" : name;
              },
              "automatic, or a name that `tutti explain` lists for the collective")
          ->check(CLI::Validator(check_algorithm, "NAME")));
  add(command.add_option("--subgroups", communicator.subgroups, "Multicast subgroups")
          ->check(CLI::Range(1u, 256u))
          ->capture_default_str());
  add(command
          .add_option("--receive-workers", communicator.receive_workers,
                      "Number of receive workers, at most one per subgroup (default, also for 0: "
                      "TUTTI_RECEIVE_WORKERS, else none)")
          ->check(CLI::Range(0u, 256u)));
  add(command
          .add_option(
              "--chains", communicator.chains,
              "Ranks that multicast at the same time in an Allgather; 0: learned from measurements")
          ->capture_default_str());
  add_network_options(command, communicator);
  add(command.add_option(
      "--hierarchy", communicator.hierarchy,
      "Hierarchy of hosts with several ranks: leaders, leaders=N (N leaders per host), groups or "
      "flat (default: TUTTI_HIERARCHY, else leaders)"));
  add(command.add_option("--chunk-bytes", communicator.chunk_bytes,
                         "Payload bytes of a chunk; 0: the most that the smallest MTU allows, or "
                         "with uc the most that a message may have"));
  add(command.add_option(
      "--segment-bytes", communicator.segment_bytes,
      "Payload bytes of a uc datagram; 0: the most that the smallest MTU allows"));
  add(command.add_option(
      "--interface", communicator.interface,
      "Network interface, by name or address (default: TUTTI_INTERFACE, else chosen by the "
      "library)"));
  add(command
          .add_option("--aggregators", communicator.aggregators,
                      "host:port of each aggregator (default: TUTTI_AGGREGATORS)")
          ->delimiter(','));
  add(command.add_flag("--ipv6", communicator.ipv6, "IPv6 instead of IPv4"));
  add(command.add_flag_callback(
      "--no-auth", [&communicator] { communicator.authenticate = false; },
      "CRC-32C on every datagram instead of a keyed tag"));
  add(command
          .add_option("--device", communicator.device_name,
                      "auto, ip or host (shared memory) (default: TUTTI_DEVICE, else auto)")
          ->check(CLI::IsMember({"auto", "ip", "host"})));
  add(command.add_option("--retain-bytes", communicator.retain_bytes,
                         "Bytes up to which a Broadcast is done at its root as soon as it is sent, "
                         "while the root retains a copy; 0 turns this off"));
  // The old option name --keep-bytes works for one more release, but --help does not list it.
  command.add_option("--keep-bytes", communicator.retain_bytes, "Use --retain-bytes")->group("");
  add(command.add_flag("--always-barrier", communicator.always_barrier,
                       "Run the ready barrier before every collective"));
  add(command
          .add_option_function<unsigned>(
              "--create-timeout",
              [&communicator](const unsigned& value) {
                communicator.create_timeout = std::chrono::seconds(value);
              },
              "Seconds for all ranks to join (default: 30)")
          ->check(CLI::Range(1u, 3600u)));
}

Result<Session> Session::create(const SessionOptions& options) {
  auto bootstrap = runtime::detect(options.communicator.create_timeout,
                                   runtime::process_environment(), options.communicator.job_key);
  if (!bootstrap) return bootstrap.status();
  auto communicator = runtime::create_communicator(**bootstrap, options.communicator);
  if (!communicator) return communicator.status();
  Session session(std::move(*bootstrap), std::move(*communicator));
  session.options_ = options.communicator;
  if (Status status = session.learn_locations(options); !status) return status;
  return session;
}

Status Session::learn_locations(const SessionOptions& options) {
  // A rank can choose its interface only after the first exchange, which shows whether all ranks
  // share one network. The second exchange repeats the locations, now with the interface's name.
  const std::string& boot = runtime::boot_identity();
  Location mine{runtime::host_name(), boot + runtime::namespace_identity("time"),
                boot + runtime::namespace_identity("net"), ""};
  for (int round = 0; round < 2; ++round) {
    const std::string text = nlohmann::json({mine.host, mine.clock, mine.network, mine.interface})
                                 .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    auto all = exchange_bytes(std::as_bytes(std::span(text)));
    if (!all) return all.status();
    locations_.clear();
    for (const runtime::Bytes& bytes : *all) {
      const auto* first = reinterpret_cast<const char*>(bytes.data());
      const auto parts = nlohmann::json::parse(first, first + bytes.size(), nullptr, false);
      if (!parts.is_array() || parts.size() != 4) {
        return failure(Code::peer_failed,
                       "rank {} runs another version of tutti: use the same version on all ranks",
                       locations_.size());
      }
      locations_.push_back({parts[0], parts[1], parts[2], parts[3]});
    }
    const bool local_only =
        std::all_of(locations_.begin(), locations_.end(),
                    [&](const Location& one) { return one.network == mine.network; });
    mine.interface = interface_name(options.communicator, local_only);
  }
  return {};
}

std::uint32_t Session::hosts() const {
  std::set<std::string> networks;
  for (const Location& one : locations_) networks.insert(one.network);
  return static_cast<std::uint32_t>(networks.size());
}

bool Session::one_clock() const {
  return std::all_of(locations_.begin(), locations_.end(),
                     [&](const Location& one) { return one.clock == locations_.front().clock; });
}

Result<std::vector<runtime::Bytes>> Session::exchange_bytes(std::span<const std::byte> mine) {
  return bootstrap_->allgather(mine, kExchangeTimeout);
}

Status Session::finish() {
  auto request = communicator_.barrier({.will_wait = true});
  return request ? request->wait() : request.status();
}

}  // namespace tutti::app
