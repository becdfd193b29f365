#include "info/host_facts.hpp"

#include <netinet/in.h>
#include <netinet/udp.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "device/ip/datagram_batch.hpp"
#include "device/ip/ip_device.hpp"
#include "device_probe.hpp"
#include "launch/process.hpp"

namespace tutti::app {
namespace {

std::uint64_t number_in(const std::string& path) {
  std::ifstream file(path);
  std::uint64_t value = 0;
  file >> value;
  return value;
}

SocketFeatures read_features() {
  SocketFeatures features;
  const auto socket = device::ip::open_udp(AF_INET);
  if (!socket) return features;
  features.segmentation = device::ip::probe_send_offload(socket->get());
  features.receive_offload = device::ip::enable_receive_offload(socket->get());
  const int bytes = 64 * 1024;
  features.forced_buffers =
      setsockopt(socket->get(), SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes) == 0;
  return features;
}

Limits read_limits() {
  Limits limits;
  limits.rmem_max_bytes = number_in("/proc/sys/net/core/rmem_max");
  limits.wmem_max_bytes = number_in("/proc/sys/net/core/wmem_max");
  limits.igmp_max_memberships = number_in("/proc/sys/net/ipv4/igmp_max_memberships");
  std::ifstream udp_mem("/proc/sys/net/ipv4/udp_mem");
  for (std::uint64_t& pages : limits.udp_mem_pages) udp_mem >> pages;
  limits.page_bytes = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
    limits.open_files_soft = files.rlim_cur;
    limits.open_files_hard = files.rlim_max;
  }
  const int wanted = device::ip::IpOptions().receive_buffer_bytes;
  limits.wanted_receive_buffer_bytes = static_cast<std::uint64_t>(wanted);
  if (const auto socket = device::ip::open_udp(AF_INET)) {
    limits.granted_receive_buffer_bytes = device::ip::enlarge_receive_buffer(socket->get(), wanted);
  }
  return limits;
}

std::vector<Bridge> read_bridges() {
  std::vector<Bridge> bridges;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/sys/class/net", error)) {
    const std::filesystem::path settings = entry.path() / "bridge";
    if (!std::filesystem::exists(settings, error)) continue;
    bridges.push_back({entry.path().filename().string(),
                       number_in(settings / "multicast_snooping") != 0,
                       number_in(settings / "multicast_querier") != 0});
  }
  return bridges;
}

/// The interface of the most specific IPv4 route to Tutti's multicast groups (239.192.0.0/14).
std::string find_multicast_route() {
  constexpr std::uint32_t kGroup = 0xefc0'0000u;
  std::ifstream file("/proc/net/route");
  std::string line;
  std::getline(file, line);
  std::string best;
  std::int64_t best_mask = -1;
  while (std::getline(file, line)) {
    std::istringstream fields(line);
    std::string name;
    std::string skipped;
    std::uint32_t destination = 0;
    std::uint32_t mask = 0;
    fields >> name >> std::hex >> destination >> skipped;
    for (int i = 0; i < 4; ++i) fields >> skipped;
    fields >> mask;
    if (!fields) continue;
    // /proc/net/route prints addresses and masks in network byte order.
    const std::uint32_t host_mask = ntohl(mask);
    if ((kGroup & host_mask) != ntohl(destination) || std::int64_t{host_mask} <= best_mask)
      continue;
    best = name;
    best_mask = host_mask;
  }
  return best;
}

/// The interfaces with strict reverse path filtering: they drop datagrams from sources that are
/// routed through another interface. The kernel applies the larger of the setting "all" and the
/// interface's own setting; 1 means strict.
std::vector<std::string> find_strict_filters(const std::vector<device::ip::Interface>& interfaces) {
  const std::string folder = "/proc/sys/net/ipv4/conf/";
  const std::uint64_t all = number_in(folder + "all/rp_filter");
  std::vector<std::string> names;
  for (const auto& one : interfaces) {
    if (one.loopback || one.address.family() != AF_INET) continue;
    if (std::max(all, number_in(folder + one.name + "/rp_filter")) == 1) names.push_back(one.name);
  }
  return names;
}

/// Reads the default policy for incoming packets from the nftables chains.
void read_nft_policy(HostFacts& facts) {
  const auto listed = launch::run_program({}, {"nft", "-j", "list", "chains"});
  if (!listed || listed->exit_status != 0) {
    facts.input_policy_source =
        "the command nft cannot list the rules: install nftables and run as root";
    return;
  }
  const auto json = nlohmann::json::parse(listed->output, nullptr, false);
  if (json.is_discarded() || !json.contains("nftables")) return;
  facts.input_policy = InputPolicy::accept;
  facts.input_policy_source = "nft list chains";
  for (const auto& entry : json["nftables"]) {
    if (!entry.contains("chain")) continue;
    const auto& chain = entry["chain"];
    if (chain.value("hook", "") == "input" && chain.value("policy", "") == "drop") {
      facts.input_policy = InputPolicy::drop;
    }
  }
}

/// Reads the default policy for incoming packets from iptables, because nft does not list legacy
/// iptables rules.
void read_iptables_policy(HostFacts& facts) {
  const auto listed = launch::run_program({}, {"iptables", "-S", "INPUT"});
  if (!listed || listed->exit_status != 0) return;
  const bool drops = listed->output.find("-P INPUT DROP") != std::string::npos;
  if (facts.input_policy == InputPolicy::unknown || drops) {
    facts.input_policy = drops ? InputPolicy::drop : InputPolicy::accept;
    facts.input_policy_source = "iptables -S INPUT";
  }
}

void read_interfaces(HostFacts& facts) {
  if (auto all = device::ip::list_interfaces()) facts.interfaces = std::move(*all);
  const char* wanted = std::getenv("TUTTI_INTERFACE");
  auto chosen = device::ip::choose_interface(wanted == nullptr ? "" : wanted, false, AF_INET);
  if (chosen) {
    facts.chosen = std::move(*chosen);
  } else {
    facts.chosen_error = chosen.status().message();
  }
  facts.multicast_route = find_multicast_route();
  facts.strict_filters = find_strict_filters(facts.interfaces);
}

void read_capabilities(HostFacts& facts) {
  const auto probed = probe_device(facts.chosen ? facts.chosen->name : "lo", false, 1);
  if (probed) {
    facts.capabilities = *probed;
    const auto uc = probe_device(facts.chosen ? facts.chosen->name : "lo", false, 1, "uc");
    if (uc) facts.uc_capabilities = *uc;
  } else {
    facts.capabilities_error = probed.status().message();
  }
}

}  // namespace

HostFacts read_host_facts() {
  HostFacts facts;
  utsname system{};
  if (uname(&system) == 0) {
    facts.host = system.nodename;
    facts.kernel = system.release;
  }
  facts.cores = std::thread::hardware_concurrency();
  if (const long configured = sysconf(_SC_NPROCESSORS_ONLN); configured > 0) {
    facts.cores = static_cast<unsigned>(configured);
  }
  cpu_set_t usable;
  if (sched_getaffinity(0, sizeof usable, &usable) == 0) {
    facts.usable_cores = static_cast<unsigned>(CPU_COUNT(&usable));
  }
  read_interfaces(facts);
  facts.features = read_features();
  facts.limits = read_limits();
  facts.bridges = read_bridges();
  read_nft_policy(facts);
  read_iptables_policy(facts);
  read_capabilities(facts);
  facts.lab = lab::lab_support();
  return facts;
}

const char* to_string(InputPolicy policy) {
  switch (policy) {
    case InputPolicy::accept:
      return "accept";
    case InputPolicy::drop:
      return "drop";
    case InputPolicy::unknown:
      break;
  }
  return "unknown";
}

}  // namespace tutti::app
