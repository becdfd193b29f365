// The properties of this host that matter to Tutti.
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

/// The limits of the kernel and this user on sockets.
struct SocketFeatures {
  bool segmentation = false;     ///< UDP_SEGMENT: many datagrams sent by one call
  bool receive_offload = false;  ///< UDP_GRO: many datagrams received by one call
  bool forced_buffers = false;   ///< SO_RCVBUFFORCE: receive buffers above net.core.rmem_max
};

struct Limits {
  std::uint64_t rmem_max_bytes = 0;
  std::uint64_t wmem_max_bytes = 0;
  std::uint64_t wanted_receive_buffer_bytes = 0;   ///< receive buffer that Tutti requests
  std::uint64_t granted_receive_buffer_bytes = 0;  ///< size granted, as the kernel counts
  std::array<std::uint64_t, 3> udp_mem_pages{};    ///< low, pressure, high
  std::uint64_t page_bytes = 0;
  std::uint64_t open_files_soft = 0;
  std::uint64_t open_files_hard = 0;
  std::uint64_t igmp_max_memberships = 0;
};

/// The firewall's treatment of datagrams that no rule names.
enum class InputPolicy { accept, drop, unknown };

struct HostFacts {
  std::string host;
  std::string kernel;
  unsigned cores = 0;         ///< cores of the host
  unsigned usable_cores = 0;  ///< cores that this process may use
  std::vector<device::ip::Interface> interfaces;
  std::optional<device::ip::Interface> chosen;  ///< interface for a job of several hosts
  std::string chosen_error;                     ///< reason if there is none
  std::string multicast_route;              ///< interface of the IPv4 route to the groups, or ""
  std::vector<std::string> strict_filters;  ///< interfaces with strict reverse path filtering
  SocketFeatures features;
  Limits limits;
  std::vector<Bridge> bridges;
  InputPolicy input_policy = InputPolicy::unknown;
  std::string input_policy_source;       ///< source of the policy, or the reason if it is unknown
  device::Capabilities capabilities;     ///< of the device `ip` on `chosen`, or on loopback
  device::Capabilities uc_capabilities;  ///< capabilities for chunks by UC
  std::string capabilities_error;
  lab::LabSupport lab;
};

/// Reads all facts in about a tenth of a second. A fact that cannot be read keeps its default.
HostFacts read_host_facts();

/// "accept", "drop", "unknown".
const char* to_string(InputPolicy policy);

}  // namespace tutti::app
