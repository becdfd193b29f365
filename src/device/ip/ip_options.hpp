// The settings of the ip device.
#pragma once

#include <memory>
#include <string>
#include "device/frame_tap.hpp"

namespace tutti::device::ip {

/// The transport of a multicast chunk.
enum class Multicast : std::uint8_t {
  ud,  ///< as one datagram ([Khalilov24] 3.2)
  uc,  ///< as one message of one or more datagrams, placed on arrival ([Khalilov24] 5.2)
};

struct IpOptions {
  std::string interface;                ///< name or address; empty: chosen automatically
  int family = 2;                       ///< AF_INET or AF_INET6
  bool local_only = false;              ///< all ranks are on this host, so loopback is used
  int send_buffer_bytes = 192 * 1024;   ///< buffers of all subgroups together
  int receive_buffer_bytes = 32 << 20;  ///< buffer of each subgroup; the system may grant less
  Multicast multicast = Multicast::ud;
  std::uint32_t max_chunk_bytes = 0;    ///< 0: as the MTU allows, or one UC message
  std::uint32_t max_segment_bytes = 0;  ///< segment of a UC message; 0: as the MTU allows
  std::shared_ptr<FrameTap> tap;        ///< for tests
};

}  // namespace tutti::device::ip
