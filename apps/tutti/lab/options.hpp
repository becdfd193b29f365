// What a lab is made of: hosts, links and impairments, checked before anything is built.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/status.hpp"

namespace tutti::lab {

/// Which datagrams are lost: TCP suffers like UDP, so that a comparison is fair, or UDP alone.
/// Control traffic of the fabric (ARP, IGMP, neighbour discovery) is never touched.
enum class LossProtocol { all, udp };

/// Loss in runs: a port enters the bad state with one probability per datagram, loses everything in
/// it, and leaves with the other. Zero enter_percent switches it off.
struct BurstLoss {
  double enter_percent = 0;
  double leave_percent = 0;
};

/// What goes wrong on the way. Percentages are per datagram, 0 (off) to 100, in steps of 0.0001.
struct Impairments {
  double loss_percent = 0;         ///< drawn anew at each receiver's port
  double shared_loss_percent = 0;  ///< drawn once at the sender's port: all receivers lose the same
  BurstLoss burst_loss;            ///< at each receiver's port
  double duplicate_percent = 0;    ///< UDP that arrives twice
  /// UDP that arrives late, behind datagrams sent after it if there are any within 0.1 ms or more.
  /// On links that are not shaped, above 100 000 datagrams per second, some late ones are lost,
  /// too.
  double reorder_percent = 0;
  double corrupt_percent = 0;  ///< UDP with one payload byte changed, and delivered
  LossProtocol loss_protocol = LossProtocol::all;
  std::vector<int> only_hosts;  ///< the hosts whose ports are impaired; empty: every host

  bool any() const;
};

/// How to build a lab.
struct LabOptions {
  std::string name;                        ///< 1-24 of [a-z0-9-]; empty: chosen from the process id
  bool persistent = false;                 ///< outlives the object and the process; needs root
  int hosts = 4;                           ///< 1 to kMaximumHosts
  int aggregators = 0;                     ///< places at the switch, with ports that are not shaped
  int mtu = 1500;                          ///< bytes, 576 to 65535 (at least 1280 with IPv6)
  std::uint64_t rate_bits_per_second = 0;  ///< each direction of each link; 0: not shaped
  std::uint32_t burst_bytes = 0;           ///< the shapers' burst; 0: chosen from the rate
  /// Whether hosts hand packets of many datagrams to the wire. Unset: on, except with impairments,
  /// which would otherwise strike 44 datagrams at a time.
  std::optional<bool> segmentation;
  std::string congestion_control;  ///< TCP's in every host, "cubic"; empty: the system's
  bool ipv6 = false;
  Impairments impairments;
};

inline constexpr int kMaximumHosts = 250;
inline constexpr int kMaximumAggregators = 4;
inline constexpr std::size_t kMaximumNameLength = 24;

/// "off", "100mbit", "2.5gbit", "800kbit" or plain bits per second, as bits per second (off: 0).
Result<std::uint64_t> parse_rate(std::string_view text);

/// "0.1%,10%" (percent signs optional).
Result<BurstLoss> parse_burst_loss(std::string_view text);

/// Ok if a lab may have this name.
Status check_name(std::string_view name);

/// Ok if the options can be built; otherwise names the option and its range.
Status check_options(const LabOptions& options);

/// Ok if the impairments can be put on a lab of so many hosts.
Status check_impairments(const Impairments& impairments, int hosts);

/// The segmentation and the burst that the options mean, after the defaults.
bool segmentation_of(const LabOptions& options);
std::uint32_t burst_bytes_of(const LabOptions& options);

}  // namespace tutti::lab
