#include "device/host/host_device.hpp"

#include "device/host/endpoint.hpp"

namespace tutti::device::host {

Result<std::unique_ptr<Endpoint>> HostDevice::open(const EndpointOptions& options) {
  return HostEndpoint::open(options);
}

}  // namespace tutti::device::host
