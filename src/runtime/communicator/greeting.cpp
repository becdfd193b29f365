#include "runtime/communicator/greeting.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <string_view>
#include <thread>

#include "base/error.hpp"
#include "runtime/bootstrap/byte_fields.hpp"
#include "runtime/diagnostics/identity.hpp"

namespace tutti::runtime {

namespace {

// The bytes with which peer options begin. The digit at the end is the version of these options and
// of the messages between ranks, so ranks whose messages differ refuse each other at creation.
constexpr std::string_view kFormat = "tuttopt4";

/// Identifies the network namespace and the boot of the host. Two processes with equal identities
/// reach each other by loopback.
std::string network_identity() { return boot_identity() + namespace_identity("net"); }

/// Identifies the user, the process namespace and the boot of the host. Two processes with equal
/// identities may open each other's memory.
std::string memory_identity() {
  return boot_identity() + namespace_identity("pid") + ":" + std::to_string(::geteuid());
}

/// The cores on which the calling thread may run. The set is empty if the host has more than
/// CPU_SETSIZE cores.
cpu_set_t allowed_cores() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) CPU_ZERO(&allowed);
  return allowed;
}

/// Identifies the set of allowed cores and the boot of the host. Processes with equal identities
/// compete for the same cores, even in different namespaces.
std::string processors_identity() {
  std::string identity = boot_identity();
  const cpu_set_t allowed = allowed_cores();
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &allowed)) identity += fmt::format(":{}", core);
  }
  return identity;
}

/// Calls `visit` for each numeric or boolean option that must be equal on all ranks, with the name
/// of the option and a pointer to its member. Texts that must be equal are fields of PeerOptions.
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
}

/// Calls `visit` for each field that is sent, in the order of the format. The arguments are the
/// name of the field and a reference to it.
template <typename Options, typename Visit>
void for_each_field(Options& one, const Visit& visit) {
  visit("host", one.host);
  visit("network", one.network);
  visit("memory", one.memory);
  visit("processors", one.processors);
  visit("device", one.device);
  visit("multicast", one.multicast);
  visit("network_wanted", one.network_wanted);
  visit("process", one.process);
  visit("communicator", one.communicator);
  visit("aggregators", one.aggregators);
  visit("algorithms", one.algorithms);
  visit("hierarchy", one.hierarchy);
  visit("traced", one.traced);
  visit("trace_error", one.trace_error);
  for_each_agreed_option([&](const char* name, auto option) { visit(name, one.options.*option); });
}

/// Appends fields: a number or a boolean as 64 bits, a text as its length in 32 bits and its bytes.
struct FieldWriter {
  Bytes& to;

  void operator()(const char*, std::uint64_t number) const {
    put_u32(to, static_cast<std::uint32_t>(number));
    put_u32(to, static_cast<std::uint32_t>(number >> 32));
  }
  void operator()(const char*, const std::string& text) const {
    put_u32(to, static_cast<std::uint32_t>(text.size()));
    put(to, std::as_bytes(std::span(text)));
  }
};

/// Reads fields in the format of FieldWriter. The bytes may come from any process, so every length
/// and value is checked.
class FieldReader {
 public:
  explicit FieldReader(std::span<const std::byte> bytes) : rest_(bytes) {}

  template <typename Number>
  void read(const char* name, Number& number) {
    const auto bytes = take(name, 8);
    if (bytes.empty()) return;
    const std::uint64_t value = get_u32(bytes, 0) | std::uint64_t{get_u32(bytes, 4)} << 32;
    if (value > std::numeric_limits<Number>::max()) {
      damaged_ = name;
    } else {
      number = static_cast<Number>(value);
    }
  }
  void read(const char* name, std::string& text) {
    const auto length = take(name, 4);
    if (length.empty()) return;
    const auto bytes = take(name, get_u32(length, 0));
    text.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  /// The place of the first error: the name of a field, or "after the last one" if bytes follow the
  /// last field. Null if there is no error.
  const char* damaged() const {
    if (damaged_ != nullptr) return damaged_;
    return rest_.empty() ? nullptr : "after the last one";
  }

 private:
  /// Returns the next `count` bytes and moves past them. Returns no bytes if fewer are left, or if
  /// an earlier field was damaged.
  std::span<const std::byte> take(const char* name, std::size_t count) {
    if (damaged_ == nullptr && count > rest_.size()) damaged_ = name;
    if (damaged_ != nullptr) return {};
    const auto taken = rest_.first(count);
    rest_ = rest_.subspan(count);
    return taken;
  }

  std::span<const std::byte> rest_;
  const char* damaged_ = nullptr;
};

std::string quoted(const std::string& text) { return "\"" + text + "\""; }

}  // namespace

std::vector<std::byte> PeerOptions::encode() const {
  const auto format = std::as_bytes(std::span(kFormat));
  Bytes bytes(format.begin(), format.end());
  for_each_field(*this, FieldWriter{bytes});
  return bytes;
}

Result<PeerOptions> PeerOptions::decode(std::span<const std::byte> bytes) {
  const auto magic = std::as_bytes(std::span(kFormat));
  if (bytes.size() < magic.size() || !std::equal(magic.begin(), magic.end(), bytes.begin())) {
    return failure(Code::invalid_argument,
                   "the received options are not from this version of Tutti: use the same build of "
                   "Tutti on all ranks");
  }
  PeerOptions greeting;
  FieldReader reader(bytes.subspan(magic.size()));
  for_each_field(greeting, [&reader](const char* name, auto& field) { reader.read(name, field); });
  if (reader.damaged() == nullptr) return greeting;
  return failure(
      Code::invalid_argument,
      "the received options are damaged at the field {}: use the same build of Tutti on all ranks",
      reader.damaged());
}

std::uint32_t allowed_core_count() {
  const cpu_set_t allowed = allowed_cores();
  const auto count = static_cast<std::uint32_t>(CPU_COUNT(&allowed));
  return count > 0 ? count : std::max(1u, std::thread::hardware_concurrency());
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
    return failure_of({rank_of(r)}, Code::invalid_argument, "rank {} ({}) cannot write a trace: {}",
                      r, greetings[r].host, greetings[r].trace_error);
  }
  return {};
}

}  // namespace tutti::runtime
