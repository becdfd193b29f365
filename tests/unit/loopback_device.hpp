// The device "ip" on the loopback interface, for tests that watch what a communicator does with it.
#pragma once

#include "device/ip/ip_device.hpp"

namespace tutti::test {

inline device::ip::IpOptions loopback_options() {
  device::ip::IpOptions options;
  options.local_only = true;
  return options;
}

}  // namespace tutti::test
