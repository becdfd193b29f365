#include "device/ip/ip_device.hpp"

#include "device/ip/endpoint.hpp"

namespace tutti::device::ip {

Result<std::unique_ptr<Endpoint>> IpDevice::open(const EndpointOptions& options) {
  return IpEndpoint::open(options_, options);
}

}  // namespace tutti::device::ip
