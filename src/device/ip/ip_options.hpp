// The settings of the ip device.
#pragma once

#include <memory>
#include <string>

#include "device/frame_tap.hpp"
#include "device/ip/socket_class.hpp"

namespace tutti::device::ip {

/// The form in which a chunk is multicast.
enum class Multicast : std::uint8_t {
  ud,  ///< one datagram per chunk ([Khalilov24] 3.2)
  uc,  ///< one message per chunk, of one or more datagrams, placed on arrival ([Khalilov24] 5.2)
};

struct IpOptions {
  /// Name or address of the interface; empty: chosen automatically.
  std::string interface;
  int family = 2;                      ///< AF_INET or AF_INET6
  bool local_only = false;             ///< true: all ranks are on this host, so loopback is used
  int send_buffer_bytes = 192 * 1024;  ///< bytes of the send buffers of all subgroups together
  /// Bytes of each subgroup's receive buffer; the system may grant less.
  int receive_buffer_bytes = 32 << 20;
  Multicast multicast = Multicast::ud;
  /// Hop limit of multicast datagrams, 1 to 255: they cross at most `multicast_hops` - 1 routers.
  std::uint32_t multicast_hops = 1;
  TrafficClasses traffic;
  /// Largest chunk in bytes; 0: as large as the MTU (UD) or a message (UC) allows.
  std::uint32_t max_chunk_bytes = 0;
  /// Largest UC fragment in bytes; 0: as large as the MTU allows.
  std::uint32_t max_fragment_bytes = 0;
  std::shared_ptr<FrameTap> tap;  ///< hook for tests; null: no hook
};

}  // namespace tutti::device::ip
