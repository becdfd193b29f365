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

/// The traffic that loss applies to: all, so that TCP and UDP compare fairly, or UDP only. Control
/// traffic of the fabric (ARP, IGMP, neighbour discovery) is never lost.
enum class LossProtocol { all, udp };

/// Loss in runs: a port enters the bad state with one probability per datagram, loses every
/// datagram in it, and leaves it with the other. An enter_percent of 0 turns it off.
struct BurstLoss {
  double enter_percent = 0;
  double leave_percent = 0;
};

/// The impairments of the links. Percentages are per datagram, 0 (off) to 100, in steps of 0.0001.
struct Impairments {
  double loss_percent = 0;         ///< drawn independently at each receiver's port
  double shared_loss_percent = 0;  ///< drawn once at the sender's port, the same for all receivers
  BurstLoss burst_loss;            ///< drawn at each receiver's port
  double duplicate_percent = 0;    ///< percent of UDP delivered twice
  /// Percent of UDP delivered late, behind datagrams sent up to about 0.1 ms later. On unshaped
  /// links above 100 000 datagrams per second some late ones are lost.
  double reorder_percent = 0;
  double corrupt_percent = 0;  ///< percent of UDP delivered with one payload byte changed
  LossProtocol loss_protocol = LossProtocol::all;
  std::vector<int> only_hosts;  ///< hosts whose ports are impaired; empty: all

  bool any() const;
};

/// The description of a lab.
struct LabOptions {
  std::string name;         ///< 1-24 of [a-z0-9-]; empty: chosen from the process id
  bool persistent = false;  ///< whether it outlives the object and the process; needs root
  int hosts = 4;            ///< 1 to kMaximumHosts
  int aggregators = 0;      ///< places at the switch, with unshaped ports
  int mtu = 1500;           ///< bytes, 576 to 65535 (at least 1280 with IPv6)
  std::uint64_t rate_bits_per_second = 0;  ///< rate in each direction of each link; 0: not shaped
  std::uint32_t burst_bytes = 0;           ///< burst of the shapers; 0: chosen from the rate
  /// Whether hosts put packets of many datagrams on the wire. Unset: on, except with impairments,
  /// which would apply to a whole packet.
  std::optional<bool> segmentation;
  std::string congestion_control;  ///< of TCP, such as "cubic"; empty: the system's
  bool ipv6 = false;
  Impairments impairments;
};

inline constexpr int kMaximumHosts = 250;
inline constexpr int kMaximumAggregators = 4;
inline constexpr std::size_t kMaximumNameLength = 24;

/// Parses "off", "100mbit", "2.5gbit", "800kbit" or a number of bits per second; "off" is 0.
Result<std::uint64_t> parse_rate(std::string_view text);

/// Parses "0.1%,10%" (percent signs optional).
Result<BurstLoss> parse_burst_loss(std::string_view text);

/// Ok if the name is valid for a lab.
Status check_name(std::string_view name);

/// Ok if a lab can be built from the options; otherwise names the option and its range.
Status check_options(const LabOptions& options);

/// Ok if the impairments fit a lab with this number of hosts.
Status check_impairments(const Impairments& impairments, int hosts);

/// The segmentation and the burst after the defaults are applied.
bool segmentation_of(const LabOptions& options);
std::uint32_t burst_bytes_of(const LabOptions& options);

}  // namespace tutti::lab
