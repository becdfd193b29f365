// Reads the properties of this host that matter to Tutti.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "device/device.hpp"
#include "device/ip/interface.hpp"
#include "lab/lab.hpp"

namespace tutti::app {

/// A software bridge of this host.
struct Bridge {
  std::string name;
  bool snooping = false;
  bool querier = false;
};

/// The socket features of the kernel that this user may use.
struct SocketFeatures {
  /// Whether the socket option UDP_SEGMENT works, with which one call sends many datagrams.
  bool segmentation = false;
  /// Whether the socket option UDP_GRO works, with which one call receives many datagrams.
  bool receive_offload = false;
  /// Whether the socket option SO_RCVBUFFORCE works, which allows receive buffers above
  /// net.core.rmem_max.
  bool forced_buffers = false;
};

struct Limits {
  std::uint64_t rmem_max_bytes = 0;
  std::uint64_t wmem_max_bytes = 0;
  /// Size of the receive buffer that Tutti requests, in bytes.
  std::uint64_t wanted_receive_buffer_bytes = 0;
  /// Size of the receive buffer that the kernel grants, in bytes, including the kernel's overhead.
  std::uint64_t granted_receive_buffer_bytes = 0;
  /// The three thresholds of net.ipv4.udp_mem (low, pressure, high), in pages.
  std::array<std::uint64_t, 3> udp_mem_pages{};
  std::uint64_t page_bytes = 0;
  std::uint64_t open_files_soft = 0;
  std::uint64_t open_files_hard = 0;
  std::uint64_t igmp_max_memberships = 0;
};

/// The default policy of the firewall, for incoming datagrams that no rule matches.
enum class InputPolicy { accept, drop, unknown };

struct HostFacts {
  std::string host;
  std::string kernel;
  unsigned cores = 0;         ///< number of cores of the host
  unsigned usable_cores = 0;  ///< number of cores that this process may use
  std::vector<device::ip::Interface> interfaces;
  /// Interface that Tutti would choose for a job of several hosts; unset if there is none.
  std::optional<device::ip::Interface> chosen;
  std::string chosen_error;  ///< reason why `chosen` is unset
  /// Interface through which the IPv4 routes send packets to Tutti's multicast groups; empty if
  /// there is no route.
  std::string multicast_route;
  std::vector<std::string> strict_filters;  ///< interfaces with strict reverse path filtering
  SocketFeatures features;
  Limits limits;
  std::vector<Bridge> bridges;
  InputPolicy input_policy = InputPolicy::unknown;
  /// Command that showed the firewall's policy, or the reason why the policy is unknown.
  std::string input_policy_source;
  /// Capabilities of the device `ip` on the interface `chosen`, or on loopback if `chosen` is
  /// unset.
  device::Capabilities capabilities;
  /// Capabilities of the device `ip` with UC multicast, on the interface `chosen`, or on loopback
  /// if `chosen` is unset.
  device::Capabilities uc_capabilities;
  std::string capabilities_error;
  lab::LabSupport lab;
};

/// Reads all facts about this host, which takes about a tenth of a second. A fact that cannot be
/// read has its default value.
HostFacts read_host_facts();

/// The policy as text: "accept", "drop" or "unknown".
const char* to_string(InputPolicy policy);

}  // namespace tutti::app
