// The options of a lab: hosts, links and impairments, checked before the lab is built.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/status.hpp"

namespace tutti::lab {

/// The packets that can be lost: those of TCP and UDP (for a fair comparison of the two), those of
/// UDP only, or UDP multicast only. Control traffic (ARP, IGMP, neighbour discovery) is never lost.
enum class LossProtocol { all, udp, multicast };

std::string_view to_string(LossProtocol protocol);
/// The value of LossProtocol with this name; `all` for any other text.
LossProtocol loss_protocol_named(std::string_view name);

/// Loss of consecutive datagrams. A datagram is lost with the probability enter_percent, and its
/// port is then in a bad state. In this state a datagram is delivered with the probability
/// leave_percent, which ends the state; otherwise it is lost. An enter_percent of 0 turns burst
/// loss off.
struct BurstLoss {
  double enter_percent = 0;
  double leave_percent = 0;
};

/// The impairments that the lab applies to datagrams on its links. Percentages apply to single
/// datagrams and go from 0 (off) to 100 in steps of 0.0001.
struct Impairments {
  /// Share of datagrams lost at each receiver's port, drawn independently, in percent.
  double loss_percent = 0;
  /// Share of datagrams lost at the sender's port, and so at all receivers, in percent.
  double shared_loss_percent = 0;
  BurstLoss burst_loss;          ///< loss of consecutive datagrams at each receiver's port
  double duplicate_percent = 0;  ///< share of UDP datagrams delivered twice, in percent
  /// Share of UDP datagrams that are delayed, in percent. Datagrams sent up to about 0.1 ms later
  /// overtake them. If a link without a rate limit carries more than 100 000 datagrams per second,
  /// some of the delayed ones are lost.
  double reorder_percent = 0;
  /// Share of UDP datagrams delivered with one changed payload byte, in percent.
  double corrupt_percent = 0;
  LossProtocol loss_protocol = LossProtocol::all;
  std::vector<int> only_hosts;  ///< hosts whose ports are impaired; empty: all

  bool any() const;
};

/// How the hosts and aggregators of a lab share the cores if there are fewer cores than hosts and
/// aggregators together. `traffic`: the processes on each core move about the same number of bytes
/// in an Allreduce. `hosts`: each core has about the same number of hosts, and an aggregator may
/// use any core; this suits ranks that mainly compute.
enum class CoreShares { traffic, hosts };

std::string_view to_string(CoreShares shares);
/// The value of CoreShares with this name; `traffic` for any other text.
CoreShares core_shares_named(std::string_view name);

/// The description of a lab to build.
struct LabOptions {
  /// Name of 1 to 24 characters of [a-z0-9-]; empty: chosen from the process id.
  std::string name;
  /// Whether the lab is persistent, so that it outlives this process; needs root.
  bool persistent = false;
  int hosts = 4;  ///< number of hosts, 1 to kMaximumHosts
  /// Number of namespaces for aggregators. Their ports at the switch have no rate limit.
  int aggregators = 0;
  CoreShares core_shares = CoreShares::traffic;
  int mtu = 1500;  ///< MTU of the links in bytes, 576 to 65535 (at least 1280 with IPv6)
  /// Rate of each host's link in each direction, in bit/s; 0: no limit.
  std::uint64_t rate_bits_per_second = 0;
  /// Burst size of the rate limiters, in bytes; 0: chosen from the rate.
  std::uint32_t burst_bytes = 0;
  /// Whether hosts use segmentation offload, which puts packets of many datagrams on the links. If
  /// unset, hosts use it only if no impairment is set, because an impairment would affect a whole
  /// packet.
  std::optional<bool> segmentation;
  /// Congestion control of TCP, such as "cubic"; empty: the system's default.
  std::string congestion_control;
  bool ipv6 = false;
  Impairments impairments;
};

inline constexpr int kMaximumHosts = 250;
inline constexpr int kMaximumAggregators = 4;
inline constexpr std::size_t kMaximumNameLength = 24;

/// Parses a rate: "off" (0), "100mbit", "2.5gbit", "800kbit" or a number of bits per second.
Result<std::uint64_t> parse_rate(std::string_view text);

/// Parses burst loss such as "0.1%,10%"; percent signs may be left out.
Result<BurstLoss> parse_burst_loss(std::string_view text);

/// Ok if the text is a valid name of a lab.
Status check_name(std::string_view name);

/// Ok if a lab can be built from the options; otherwise the error names the option and its valid
/// range.
Status check_options(const LabOptions& options);

/// Ok if the impairments are valid for a lab with this number of hosts.
Status check_impairments(const Impairments& impairments, int hosts);

/// `segmentation` and `burst_bytes` of the options, or their defaults if they are unset.
bool segmentation_of(const LabOptions& options);
std::uint32_t burst_bytes_of(const LabOptions& options);

}  // namespace tutti::lab
