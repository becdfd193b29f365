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

/// The limits that the kernel sets for sockets of this user.
struct SocketFeatures {
  /// Whether UDP_SEGMENT works, by which one call sends many datagrams.
  bool segmentation = false;
  /// Whether UDP_GRO works, by which one call receives many datagrams.
  bool receive_offload = false;
  /// Whether SO_RCVBUFFORCE works, which allows receive buffers above net.core.rmem_max.
  bool forced_buffers = false;
};

struct Limits {
  std::uint64_t rmem_max_bytes = 0;
  std::uint64_t wmem_max_bytes = 0;
  /// Size of the receive buffer that Tutti requests, in bytes.
  std::uint64_t wanted_receive_buffer_bytes = 0;
  /// Size of the receive buffer that the kernel grants, by the kernel's own count.
  std::uint64_t granted_receive_buffer_bytes = 0;
  /// Thresholds of net.ipv4.udp_mem in pages: low, pressure, high.
  std::array<std::uint64_t, 3> udp_mem_pages{};
  std::uint64_t page_bytes = 0;
  std::uint64_t open_files_soft = 0;
  std::uint64_t open_files_hard = 0;
  std::uint64_t igmp_max_memberships = 0;
};

/// The treatment by the firewall of datagrams that no rule names.
enum class InputPolicy { accept, drop, unknown };

struct HostFacts {
  std::string host;
  std::string kernel;
  unsigned cores = 0;         ///< number of cores of the host
  unsigned usable_cores = 0;  ///< number of cores that this process may use
  std::vector<device::ip::Interface> interfaces;
  /// Interface for a job of several hosts; unset if there is none.
  std::optional<device::ip::Interface> chosen;
  std::string chosen_error;  ///< reason if no interface was chosen
  /// Interface of the IPv4 route to the multicast groups; empty: none.
  std::string multicast_route;
  std::vector<std::string> strict_filters;  ///< interfaces with strict reverse path filtering
  SocketFeatures features;
  Limits limits;
  std::vector<Bridge> bridges;
  InputPolicy input_policy = InputPolicy::unknown;
  /// Place where the firewall's policy was read, or the reason if it is unknown.
  std::string input_policy_source;
  /// Capabilities of the device `ip` on `chosen`, or on loopback.
  device::Capabilities capabilities;
  device::Capabilities uc_capabilities;  ///< capabilities of the same device for chunks by UC
  std::string capabilities_error;
  lab::LabSupport lab;
};

/// Reads all facts, in about a tenth of a second. A fact that cannot be read keeps its default.
HostFacts read_host_facts();

/// The policy as text: "accept", "drop" or "unknown".
const char* to_string(InputPolicy policy);

}  // namespace tutti::app
