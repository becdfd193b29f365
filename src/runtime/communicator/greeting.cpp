#include "runtime/communicator/greeting.hpp"

#include <sched.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <type_traits>

#include "base/error.hpp"
#include "runtime/bootstrap/packed_json.hpp"
#include "runtime/bootstrap/packed_number.hpp"
#include "runtime/diagnostics/identity.hpp"

namespace tutti::runtime {

namespace {

constexpr std::uint64_t kProtocol = 2;

/// An identity of the host's boot and of the network namespace. Two processes with equal identities
/// reach each other by loopback.
std::string network_identity() { return boot_identity() + namespace_identity("net"); }

/// An identity of the host's boot, the process namespace and the user. Two processes with equal
/// identities may open each other's memory.
std::string memory_identity() {
  return boot_identity() + namespace_identity("pid") + ":" + std::to_string(::geteuid());
}

/// An identity of the host's boot and of the set of allowed cores. Processes with equal identities
/// compete for the same cores, even in different namespaces.
std::string processors_identity() {
  std::string identity = boot_identity();
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return identity;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &allowed)) identity += ":" + std::to_string(core);
  }
  return identity;
}

/// Calls `visit` with the name of each number or switch that must be equal on all ranks, and with a
/// pointer to it. Texts that must be equal are fields of PeerOptions.
template <typename Visit>
void for_each_agreed_option(const Visit& visit) {
  visit("subgroups", &CommunicatorOptions::subgroups);
  visit("chains", &CommunicatorOptions::chains);
  visit("chunk_bytes", &CommunicatorOptions::chunk_bytes);
  visit("window_bytes", &CommunicatorOptions::window_bytes);
  visit("retain_bytes", &CommunicatorOptions::retain_bytes);
  visit("ipv6", &CommunicatorOptions::ipv6);
  visit("authenticate", &CommunicatorOptions::authenticate);
  visit("always_barrier", &CommunicatorOptions::always_barrier);
  visit("multicast_hops", &CommunicatorOptions::multicast_hops);
  visit("require_multicast", &CommunicatorOptions::require_multicast);
  visit("first_sequence", &CommunicatorOptions::first_sequence);
}

std::string quoted(const std::string& text) { return "\"" + text + "\""; }

}  // namespace

std::vector<std::byte> PeerOptions::encode() const {
  nlohmann::json json = {{"protocol", kProtocol},      {"host", host},
                         {"network", network},         {"memory", memory},
                         {"processors", processors},   {"device", device},
                         {"multicast", multicast},     {"network_wanted", network_wanted},
                         {"process", process},         {"communicator", communicator},
                         {"aggregators", aggregators}, {"algorithms", algorithms},
                         {"hierarchy", hierarchy},     {"traced", traced},
                         {"trace_error", trace_error}};
  for_each_agreed_option([&](const char* name, auto option) { json[name] = options.*option; });
  const std::vector<std::uint8_t> packed = nlohmann::json::to_msgpack(json);
  const auto* first = reinterpret_cast<const std::byte*>(packed.data());
  return {first, first + packed.size()};
}

Result<PeerOptions> PeerOptions::decode(std::span<const std::byte> bytes) {
  const auto unpacked = unpack(bytes);
  if (!unpacked) {
    return failure(Code::invalid_argument, "the peer options are damaged: {}",
                   unpacked.status().message());
  }
  const nlohmann::json& json = *unpacked;
  if (!json.is_object())
    return failure(Code::invalid_argument,
                   "the peer options are not from Tutti: use one version of Tutti");
  PeerOptions greeting;
  try {
    const auto read = [&json](const char* name, auto& value) {
      using Value = std::remove_reference_t<decltype(value)>;
      if constexpr (std::is_same_v<Value, bool>) {
        json.at(name).get_to(value);
      } else {
        value = whole<Value>(json.at(name), name);
      }
    };
    if (const auto spoken = whole<std::uint64_t>(json.at("protocol"), "protocol");
        spoken != kProtocol) {
      return failure(Code::invalid_argument,
                     "its protocol version is {} but that of this rank is {}: use one version of "
                     "Tutti on all ranks",
                     spoken, kProtocol);
    }
    json.at("host").get_to(greeting.host);
    json.at("network").get_to(greeting.network);
    json.at("memory").get_to(greeting.memory);
    json.at("processors").get_to(greeting.processors);
    json.at("device").get_to(greeting.device);
    json.at("multicast").get_to(greeting.multicast);
    json.at("network_wanted").get_to(greeting.network_wanted);
    read("process", greeting.process);
    read("communicator", greeting.communicator);
    for_each_agreed_option(
        [&](const char* name, auto option) { read(name, greeting.options.*option); });
    json.at("aggregators").get_to(greeting.aggregators);
    json.at("algorithms").get_to(greeting.algorithms);
    json.at("hierarchy").get_to(greeting.hierarchy);
    json.at("traced").get_to(greeting.traced);
    json.at("trace_error").get_to(greeting.trace_error);
  } catch (const std::exception& error) {
    return failure(Code::invalid_argument, "the peer options are damaged: {}", error.what());
  }
  return greeting;
}

PeerOptions make_greeting(const CommunicatorOptions& options, std::uint16_t communicator,
                          const std::string& algorithms) {
  PeerOptions greeting;
  greeting.options = options;
  greeting.options.job_key.reset();
  greeting.aggregators = !options.aggregators.empty();
  greeting.algorithms = algorithms;
  greeting.host = host_name();
  greeting.network = network_identity();
  greeting.memory = memory_identity();
  greeting.processors = processors_identity();
  greeting.process = static_cast<std::uint32_t>(::getpid());
  greeting.communicator = communicator;
  return greeting;
}

Status check_agreement(const std::vector<PeerOptions>& greetings) {
  const PeerOptions& first = greetings.front();
  Status status;
  for (std::size_t r = 1; r < greetings.size() && status.ok(); ++r) {
    const PeerOptions& other = greetings[r];
    const auto agree = [&](const char* option, const auto& a, const auto& b) {
      if (!status.ok() || a == b) return;
      status = failure_of({rank_of(0), rank_of(r)}, Code::invalid_argument,
                          "the ranks disagree on {}: {} at rank 0 ({}), {} at rank {} ({}): give "
                          "all ranks the same value",
                          option, a, first.host, b, r, other.host);
    };
    agree("the device (the option device_name, or TUTTI_DEVICE)", first.device, other.device);
    agree("the kind of multicast (the option multicast, or TUTTI_MULTICAST)", first.multicast,
          other.multicast);
    for_each_agreed_option([&](const char* name, auto option) {
      agree(name, first.options.*option, other.options.*option);
    });
    agree("the use of aggregators (the options, or TUTTI_AGGREGATORS)", first.aggregators,
          other.aggregators);
    agree("TUTTI_ALGORITHMS or the file TUTTI_ALGORITHM_FILE", quoted(first.algorithms),
          quoted(other.algorithms));
    agree("the hierarchy of hosts (the option hierarchy, or TUTTI_HIERARCHY)", first.hierarchy,
          other.hierarchy);
  }
  return status;
}

Status check_traces(const std::vector<PeerOptions>& greetings) {
  for (std::size_t r = 0; r < greetings.size(); ++r) {
    if (greetings[r].trace_error.empty()) continue;
    return failure_of({rank_of(r)}, Code::invalid_argument, "rank {} ({}): {}", r,
                      greetings[r].host, greetings[r].trace_error);
  }
  return {};
}

}  // namespace tutti::runtime
