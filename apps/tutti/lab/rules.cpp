#include "lab/rules.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tutti::lab {

namespace {

constexpr std::uint32_t kMillion = 1'000'000;

/// Firewall mark of a datagram that was already duplicated or delayed, so that the ports' rules let
/// it pass. A datagram loses this and any other mark when it enters a host's namespace.
constexpr int kTreated = 0x77;
/// Firewall mark of a datagram that goes through the detour, the interface pair that delays
/// datagrams. A datagram with this mark is delivered at the end of the detour.
constexpr int kLate = 0x76;
/// Firewall mark of a filler: a copy of a datagram that goes through the detour just before this
/// datagram and thereby delays it. The filler is dropped at the end of the detour.
constexpr int kFiller = 0x75;

/// The nftables expression that matches this percentage of the datagrams; empty for 100 percent,
/// which matches every datagram.
std::string chance(double percent) {
  if (parts_per_million(percent) >= kMillion) return {};
  return fmt::format("numgen random mod {} < {}", kMillion, parts_per_million(percent));
}

std::string ports(const std::vector<int>& hosts) {
  std::string list;
  for (const int host : hosts) {
    list += fmt::format("{}\"{}\"", list.empty() ? "" : ", ", port_name(host));
  }
  return "{ " + list + " }";
}

/// The nftables expression that matches the datagrams that can be lost.
std::string traffic(LossProtocol protocol) {
  switch (protocol) {
    case LossProtocol::udp:
      return "meta l4proto udp";
    case LossProtocol::multicast:
      return "meta pkttype multicast meta l4proto udp";
    case LossProtocol::all:
      break;
  }
  return "meta l4proto { tcp, udp }";
}

/// The rules that drop and corrupt datagrams on the bridge. They need no kernel feature beyond
/// nftables.
std::string bridge_table(const Impairments& impairments, const std::vector<int>& hosts) {
  const std::string lossy = traffic(impairments.loss_protocol);
  const std::string to = "oifname " + ports(hosts) + " ";
  std::string sender;
  std::string receiver;
  if (impairments.shared_loss_percent > 0) {
    sender += fmt::format("    iifname {} {} {} drop\n", ports(hosts), lossy,
                          chance(impairments.shared_loss_percent));
  }
  if (impairments.loss_percent > 0) {
    receiver += fmt::format("    {}{} {} drop\n", to, lossy, chance(impairments.loss_percent));
  }
  if (impairments.burst_loss.enter_percent > 0) {
    // The nftables set "bad" holds the ports that are in the bad state of burst loss. The datagram
    // that ends the state is delivered.
    receiver += fmt::format("    {}{} oifname @bad {} delete @bad {{ oifname }} accept\n", to,
                            lossy, chance(impairments.burst_loss.leave_percent));
    receiver += fmt::format("    {}{} oifname @bad drop\n", to, lossy);
    receiver += fmt::format("    {}{} {} add @bad {{ oifname }} drop\n", to, lossy,
                            chance(impairments.burst_loss.enter_percent));
  }
  if (impairments.corrupt_percent > 0) {
    receiver += fmt::format("    {}meta l4proto udp {} jump corrupt\n", to,
                            chance(impairments.corrupt_percent));
  }
  // The chain `corrupt` changes the payload byte with index 48 or 8, chosen at random. A datagram
  // without byte 48 gets its byte 8 changed, and a datagram without byte 8 stays unchanged.
  return fmt::format(
      "table bridge tutti {{\n"
      "  set bad {{ type ifname; size 1024; flags dynamic; }}\n"
      "  chain corrupt {{\n"
      "    numgen random mod 2 < 1 @th,{0},8 set @th,{0},8 ^ 0x5a return\n"
      "    @th,{1},8 set @th,{1},8 ^ 0x5a\n"
      "  }}\n"
      "  chain sender {{\n    type filter hook prerouting priority 0; policy accept;\n{2}  }}\n"
      "  chain receiver {{\n    type filter hook forward priority 0; policy accept;\n{3}  }}\n"
      "}}\n",
      (8 + 48) * 8, (8 + 8) * 8, sender, receiver);
}

/// The rules that duplicate datagrams and send some through the detour, at the egress of each port.
std::string port_table(const Impairments& impairments, const std::vector<int>& hosts) {
  std::string out;
  std::string back;
  for (const int host : hosts) {
    const std::string port = port_name(host);
    if (impairments.duplicate_percent > 0) {
      out += fmt::format("    oifname \"{}\" meta l4proto udp {} meta mark set {} dup to \"{}\"\n",
                         port, chance(impairments.duplicate_percent), kTreated, port);
    }
    if (impairments.reorder_percent > 0) {
      const std::string detour = detour_name(host);
      out += fmt::format(
          "    oifname \"{0}\" meta mark != {1} meta l4proto udp {2} meta mark set {3} dup to "
          "\"{4}\" meta mark set {5} fwd to \"{4}\"\n",
          port, kTreated, chance(impairments.reorder_percent), kFiller, detour, kLate);
      back += fmt::format("    iifname \"{}\" meta mark {} meta mark set {} fwd to \"{}\"\n",
                          detour_end_name(host), kLate, kTreated, port);
    }
  }
  std::string devices;
  for (const int host : hosts) {
    devices += fmt::format("{}{}", devices.empty() ? "" : ", ", port_name(host));
  }
  std::string table = fmt::format(
      "table netdev tutti {{\n"
      "  chain out {{\n    type filter hook egress devices = {{ {} }} priority 0; policy accept;\n"
      "    meta mark {} accept\n{}  }}\n",
      devices, kTreated, out);
  if (impairments.reorder_percent > 0) {
    std::string ends;
    for (const int host : hosts) {
      ends += fmt::format("{}{}", ends.empty() ? "" : ", ", detour_end_name(host));
    }
    table += fmt::format(
        "  chain back {{\n    type filter hook ingress devices = {{ {} }} priority 0; policy "
        "drop;\n"
        "{}  }}\n",
        ends, back);
  }
  return table + "}\n";
}

}  // namespace

std::string port_name(int host) { return fmt::format("p{}", host); }
std::string detour_name(int host) { return fmt::format("late{}", host); }
std::string detour_end_name(int host) { return fmt::format("back{}", host); }

std::uint32_t parts_per_million(double percent) {
  return static_cast<std::uint32_t>(std::lround(percent * (kMillion / 100)));
}

std::vector<int> impaired_hosts(const Impairments& impairments, int hosts) {
  std::vector<int> result = impairments.only_hosts;
  if (result.empty()) {
    result.resize(static_cast<std::size_t>(hosts));
    std::iota(result.begin(), result.end(), 0);
  }
  std::sort(result.begin(), result.end());
  result.erase(std::unique(result.begin(), result.end()), result.end());
  return result;
}

std::string rules_for(const Impairments& impairments, int hosts) {
  // The script declares each table before deleting it, so that deletion succeeds even if there was
  // no table.
  std::string script = "table bridge tutti\ndelete table bridge tutti\n";
  const std::vector<int> impaired = impaired_hosts(impairments, hosts);
  const bool at_ports = impairments.duplicate_percent > 0 || impairments.reorder_percent > 0;
  if (impairments.any()) script += bridge_table(impairments, impaired);
  script += "table netdev tutti\ndelete table netdev tutti\n";
  if (at_ports) script += port_table(impairments, impaired);
  return script;
}

DetourShape detour_shape(const LabOptions& options) {
  const std::uint32_t frame_bytes = static_cast<std::uint32_t>(options.mtu) + 14;
  // Frames per second assumed for a link without a rate limit. As long as the link carries at most
  // four times this rate, the detour loses none of the datagrams that it delays.
  constexpr double kUnshapedFramesPerSecond = 25'000;
  double frames = kUnshapedFramesPerSecond;
  if (options.rate_bits_per_second > 0) {
    frames = static_cast<double>(options.rate_bits_per_second) / (8.0 * frame_bytes);
  }
  // Each delayed datagram needs the time of two frames on the detour, because a filler (kFiller)
  // precedes it. The factor 8 makes the detour four times as fast as these two frames require.
  const double share = options.impairments.reorder_percent / 100;
  const double slots = std::max(500.0, 8 * frames * share);
  return {static_cast<std::uint64_t>(slots * 8.0 * frame_bytes), frame_bytes};
}

}  // namespace tutti::lab
