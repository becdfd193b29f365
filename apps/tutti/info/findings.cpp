#include "info/findings.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace tutti::app {
namespace {

constexpr std::uint64_t kEnoughFiles = 1024;
constexpr std::uint64_t kEnoughMemberships = 20;
/// The host's memory for UDP should hold the full receive buffers of this many ranks.
constexpr std::uint64_t kRanksPerHost = 8;

using Findings = std::vector<Finding>;

void judge_buffers(const HostFacts& facts, Findings& findings) {
  const Limits& limits = facts.limits;
  // The kernel grants twice the requested size of a receive buffer, because it counts its own
  // overhead as part of the buffer.
  if (limits.granted_receive_buffer_bytes < 2 * limits.wanted_receive_buffer_bytes) {
    findings.push_back(
        {Severity::slow,
         fmt::format("a receive buffer gets {} bytes instead of {}: net.core.rmem_max is {} and "
                     "this user may not exceed it, so senders must wait for credits more often",
                     limits.granted_receive_buffer_bytes, 2 * limits.wanted_receive_buffer_bytes,
                     limits.rmem_max_bytes),
         fmt::format("sysctl -w net.core.rmem_max={}", limits.wanted_receive_buffer_bytes)});
  }
  const std::uint64_t udp_bytes = limits.udp_mem_pages[2] * limits.page_bytes;
  const std::uint64_t needed = kRanksPerHost * limits.granted_receive_buffer_bytes;
  if (udp_bytes != 0 && udp_bytes < needed && limits.page_bytes != 0) {
    const std::uint64_t pages = needed / limits.page_bytes;
    findings.push_back(
        {Severity::note,
         fmt::format("all UDP sockets of this host together may hold {} bytes, the full receive "
                     "buffers of {} ranks take {}: datagrams would then be dropped",
                     udp_bytes, kRanksPerHost, needed),
         fmt::format("sysctl -w net.ipv4.udp_mem='{} {} {}'", pages / 2, pages * 3 / 4, pages)});
  }
}

void judge_limits(const HostFacts& facts, Findings& findings) {
  const Limits& limits = facts.limits;
  if (limits.open_files_soft < kEnoughFiles) {
    findings.push_back({Severity::note,
                        fmt::format("a process may open only {} files", limits.open_files_soft),
                        fmt::format("ulimit -n {}  # in the shell that starts the job",
                                    std::min(limits.open_files_hard, kEnoughFiles))});
  }
  if (limits.igmp_max_memberships < kEnoughMemberships) {
    findings.push_back(
        {Severity::note,
         fmt::format("a socket may join {} multicast groups", limits.igmp_max_memberships),
         fmt::format("sysctl -w net.ipv4.igmp_max_memberships={}", kEnoughMemberships)});
  }
  if (!facts.features.segmentation || !facts.features.receive_offload) {
    findings.push_back(
        {Severity::slow,
         fmt::format("the kernel ({}) lacks UDP segmentation or receive offload, so that every "
                     "datagram costs a pass through it",
                     facts.kernel),
         "use Linux 5.0 or later"});
  }
}

void judge_network(const HostFacts& facts, Findings& findings) {
  if (!facts.chosen) {
    findings.push_back({Severity::failing,
                        "jobs of several hosts cannot run here: " + facts.chosen_error,
                        "ip link set dev INTERFACE up multicast on; ip address add ADDRESS/PREFIX "
                        "dev INTERFACE"});
    return;
  }
  const std::string& name = facts.chosen->name;
  if (facts.multicast_route.empty()) {
    findings.push_back({Severity::note,
                        fmt::format("there is no route to the multicast groups; Tutti names its "
                                    "interface ({}), but other programs will fail",
                                    name),
                        fmt::format("ip route add 239.192.0.0/14 dev {}", name)});
  } else if (facts.multicast_route != name) {
    findings.push_back({Severity::note,
                        fmt::format("the multicast groups are routed to {}, Tutti uses {}",
                                    facts.multicast_route, name),
                        fmt::format("ip route add 239.192.0.0/14 dev {}   # or, for the other: "
                                    "export TUTTI_INTERFACE={}",
                                    name, facts.multicast_route)});
  }
  const auto& strict = facts.strict_filters;
  if (strict.size() > 1 && std::find(strict.begin(), strict.end(), name) != strict.end()) {
    findings.push_back({Severity::note,
                        fmt::format("{} filters strictly by reverse path: multicast from hosts "
                                    "that are routed through another interface is dropped",
                                    name),
                        fmt::format("sysctl -w net.ipv4.conf.all.rp_filter=2 "
                                    "net.ipv4.conf.{}.rp_filter=2",
                                    name)});
  }
  for (const Bridge& bridge : facts.bridges) {
    if (!bridge.snooping || bridge.querier) continue;
    findings.push_back(
        {Severity::note,
         fmt::format(
             "bridge {} snoops but does not query: unless another querier is on its "
             "network, memberships expire after some minutes and members receive no multicast",
             bridge.name),
         fmt::format("ip link set dev {} type bridge mcast_querier 1", bridge.name)});
  }
}

void judge_firewall(const HostFacts& facts, Findings& findings) {
  if (facts.input_policy == InputPolicy::accept) return;
  if (facts.input_policy == InputPolicy::drop) {
    findings.push_back(
        {Severity::failing,
         fmt::format("the firewall drops datagrams that no rule accepts ({}): Tutti needs UDP from "
                     "the job's network and to its groups",
                     facts.input_policy_source),
         "iptables -I INPUT -p udp -d 239.192.0.0/14 -j ACCEPT; iptables -I INPUT -p udp -s "
         "NETWORK/PREFIX -j ACCEPT"});
    return;
  }
  findings.push_back(
      {Severity::note,
       "whether a firewall drops incoming datagrams is not known: " + facts.input_policy_source,
       "nft list ruleset; iptables -S INPUT   # look for drops of UDP"});
}

void judge_lab(const HostFacts& facts, Findings& findings) {
  if (facts.lab.temporary.ok()) return;
  findings.push_back({Severity::note, "no lab on this host: " + facts.lab.temporary.message(),
                      "sysctl -w kernel.unprivileged_userns_clone=1   # or run as root; needs the "
                      "package iproute2"});
}

}  // namespace

std::vector<Finding> find_faults(const HostFacts& facts) {
  Findings findings;
  judge_network(facts, findings);
  judge_firewall(facts, findings);
  judge_buffers(facts, findings);
  judge_limits(facts, findings);
  judge_lab(facts, findings);
  std::stable_sort(findings.begin(), findings.end(), [](const Finding& a, const Finding& b) {
    return static_cast<int>(a.severity) > static_cast<int>(b.severity);
  });
  return findings;
}

const char* to_string(Severity severity) {
  switch (severity) {
    case Severity::note:
      return "note";
    case Severity::slow:
      return "slow";
    case Severity::failing:
      return "failing";
  }
  return "unknown";
}

}  // namespace tutti::app
