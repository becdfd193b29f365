#include "runtime/communicator/greeting.hpp"

#include <sched.h>
#include <sys/random.h>
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

constexpr std::size_t kSecretBytes = 32;
constexpr std::uint64_t kProtocol = 1;

/// Identifies boot and network namespace: two processes with equal identities reach each other by
/// loopback.
std::string network_identity() { return boot_identity() + namespace_identity("net"); }

/// Identifies boot, process namespace and user: two processes with equal identities may open each
/// other's memory.
std::string memory_identity() {
  return boot_identity() + namespace_identity("pid") + ":" + std::to_string(::geteuid());
}

/// Identifies boot and set of cores: processes with equal identities contend for the same cores,
/// whatever their namespaces.
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

}  // namespace

std::vector<std::byte> PeerOptions::encode() const {
  std::vector<std::uint8_t> secret_bytes;
  for (const std::byte byte : secret) secret_bytes.push_back(static_cast<std::uint8_t>(byte));
  const nlohmann::json json = {{"protocol", kProtocol},
                               {"host", host},
                               {"network", network},
                               {"memory", memory},
                               {"processors", processors},
                               {"device", device},
                               {"multicast", multicast},
                               {"network_wanted", network_wanted},
                               {"process", process},
                               {"subgroups", subgroups},
                               {"chains", chains},
                               {"chunk_bytes", chunk_bytes},
                               {"window_bytes", window_bytes},
                               {"retain_bytes", retain_bytes},
                               {"communicator", communicator},
                               {"ipv6", ipv6},
                               {"authenticate", authenticate},
                               {"always_barrier", always_barrier},
                               {"first_sequence", first_sequence},
                               {"aggregators", aggregators},
                               {"algorithms", algorithms},
                               {"hierarchy", hierarchy},
                               {"traced", traced},
                               {"trace_error", trace_error},
                               {"secret", secret_bytes}};
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
    const auto read = [&json](const char* name, auto& number) {
      number = whole<std::remove_reference_t<decltype(number)>>(json.at(name), name);
    };
    if (const auto spoken = whole<std::uint64_t>(json.at("protocol"), "protocol");
        spoken != kProtocol) {
      return failure(Code::invalid_argument,
                     "speaks protocol {}, this rank {}: use one version of Tutti", spoken,
                     kProtocol);
    }
    json.at("host").get_to(greeting.host);
    json.at("network").get_to(greeting.network);
    json.at("memory").get_to(greeting.memory);
    json.at("processors").get_to(greeting.processors);
    json.at("device").get_to(greeting.device);
    json.at("multicast").get_to(greeting.multicast);
    json.at("network_wanted").get_to(greeting.network_wanted);
    read("process", greeting.process);
    read("subgroups", greeting.subgroups);
    read("chains", greeting.chains);
    read("chunk_bytes", greeting.chunk_bytes);
    read("window_bytes", greeting.window_bytes);
    read("retain_bytes", greeting.retain_bytes);
    read("communicator", greeting.communicator);
    json.at("ipv6").get_to(greeting.ipv6);
    json.at("authenticate").get_to(greeting.authenticate);
    json.at("always_barrier").get_to(greeting.always_barrier);
    read("first_sequence", greeting.first_sequence);
    json.at("aggregators").get_to(greeting.aggregators);
    json.at("algorithms").get_to(greeting.algorithms);
    json.at("hierarchy").get_to(greeting.hierarchy);
    json.at("traced").get_to(greeting.traced);
    json.at("trace_error").get_to(greeting.trace_error);
    for (const auto& byte : json.at("secret")) {
      greeting.secret.push_back(static_cast<std::byte>(whole<std::uint8_t>(byte, "secret")));
    }
  } catch (const std::exception& error) {
    return failure(Code::invalid_argument, "the peer options are damaged: {}", error.what());
  }
  if (greeting.secret.size() != kSecretBytes) {
    return failure(Code::invalid_argument,
                   "the peer options have a secret of {} bytes instead of {}",
                   greeting.secret.size(), kSecretBytes);
  }
  return greeting;
}

PeerOptions make_greeting(const CommunicatorOptions& options, std::uint16_t communicator,
                          const std::string& algorithms) {
  PeerOptions greeting;
  greeting.aggregators = !options.aggregators.empty();
  greeting.algorithms = algorithms;
  greeting.host = host_name();
  greeting.network = network_identity();
  greeting.memory = memory_identity();
  greeting.processors = processors_identity();
  greeting.process = static_cast<std::uint32_t>(::getpid());
  greeting.subgroups = options.subgroups;
  greeting.chains = options.chains;
  greeting.chunk_bytes = options.chunk_bytes;
  greeting.window_bytes = options.window_bytes;
  greeting.retain_bytes = options.retain_bytes;
  greeting.communicator = communicator;
  greeting.ipv6 = options.ipv6;
  greeting.authenticate = options.authenticate;
  greeting.always_barrier = options.always_barrier;
  greeting.first_sequence = options.first_sequence;
  greeting.secret.resize(kSecretBytes);
  std::size_t filled = 0;
  while (filled < kSecretBytes) {
    const ssize_t got = ::getrandom(greeting.secret.data() + filled, kSecretBytes - filled, 0);
    if (got > 0) filled += static_cast<std::size_t>(got);
  }
  return greeting;
}

Status check_agreement(const std::vector<PeerOptions>& greetings) {
  const PeerOptions& first = greetings.front();
  for (std::size_t r = 1; r < greetings.size(); ++r) {
    const PeerOptions& other = greetings[r];
    const auto differ = [&](const char* option, auto a, auto b) {
      return failure(Code::invalid_argument,
                     "the ranks disagree on {}: {} at rank 0 ({}), {} at rank {} ({}): give all "
                     "ranks the same value",
                     option, a, first.host, b, r, other.host);
    };
    if (first.device != other.device)
      return differ("the device (the option device_name, or TUTTI_DEVICE)", first.device,
                    other.device);
    if (first.multicast != other.multicast) {
      return differ("the kind of multicast (the option multicast, or TUTTI_MULTICAST)",
                    first.multicast, other.multicast);
    }
    if (first.subgroups != other.subgroups)
      return differ("subgroups", first.subgroups, other.subgroups);
    if (first.chains != other.chains) return differ("chains", first.chains, other.chains);
    if (first.chunk_bytes != other.chunk_bytes) {
      return differ("chunk_bytes", first.chunk_bytes, other.chunk_bytes);
    }
    if (first.window_bytes != other.window_bytes) {
      return differ("window_bytes", first.window_bytes, other.window_bytes);
    }
    if (first.retain_bytes != other.retain_bytes) {
      return differ("retain_bytes", first.retain_bytes, other.retain_bytes);
    }
    if (first.ipv6 != other.ipv6) return differ("ipv6", first.ipv6, other.ipv6);
    if (first.authenticate != other.authenticate) {
      return differ("authenticate", first.authenticate, other.authenticate);
    }
    if (first.always_barrier != other.always_barrier) {
      return differ("always_barrier", first.always_barrier, other.always_barrier);
    }
    if (first.first_sequence != other.first_sequence) {
      return differ("first_sequence", first.first_sequence, other.first_sequence);
    }
    if (first.aggregators != other.aggregators) {
      return differ("the use of aggregators (the options, or TUTTI_AGGREGATORS)", first.aggregators,
                    other.aggregators);
    }
    if (first.algorithms != other.algorithms) {
      return differ("TUTTI_ALGORITHMS or the file TUTTI_ALGORITHM_FILE",
                    "\"" + first.algorithms + "\"", "\"" + other.algorithms + "\"");
    }
    if (first.hierarchy != other.hierarchy) {
      return differ("the hierarchy of hosts (the option hierarchy, or TUTTI_HIERARCHY)",
                    first.hierarchy, other.hierarchy);
    }
    if (first.communicator != other.communicator) {
      return differ("the number of the communicator (created in another order?)",
                    first.communicator, other.communicator);
    }
  }
  return {};
}

Status check_traces(const std::vector<PeerOptions>& greetings) {
  for (std::size_t r = 0; r < greetings.size(); ++r) {
    if (greetings[r].trace_error.empty()) continue;
    return failure(Code::invalid_argument, "rank {} ({}): {}", r, greetings[r].host,
                   greetings[r].trace_error);
  }
  return {};
}

}  // namespace tutti::runtime
