#include "sim/uc/uc_device.hpp"

#include "base/error.hpp"

namespace tutti::device::sim {

UcEndpoint::UcEndpoint(std::unique_ptr<Endpoint> endpoint, const EndpointOptions& options,
                       const FragmentShape& shape)
    : ForwardingEndpoint(std::move(endpoint)), capabilities_(inner().capabilities()) {
  using enum Capability;
  capabilities_.bits &= ~static_cast<std::uint32_t>(multicast_ud);
  capabilities_.bits |= static_cast<std::uint32_t>(multicast_uc);
  capabilities_.max_chunk_bytes = shape.fragment_bytes * shape.fragments;
  for (std::uint32_t s = 0; s < subgroup_count(); ++s) {
    pairs_.push_back(std::make_unique<FragmentQueuePair>(inner().multicast(s), options.rank,
                                                         options.size, shape));
  }
}

Result<std::unique_ptr<Endpoint>> UcDevice::open(const EndpointOptions& options) {
  auto inner = inner_->open(options);
  if (!inner) return inner.status();
  const std::uint32_t room = (*inner)->capabilities().max_chunk_bytes;
  if (shape_.fragment_bytes == 0 || shape_.fragments == 0 ||
      shape_.fragment_bytes + wire::kFragmentHeaderBytes > room) {
    return failure(Code::invalid_argument,
                   "a UC message cannot have {} fragments of {} bytes: use 1 or more fragments of "
                   "1 to {} bytes",
                   shape_.fragments, shape_.fragment_bytes, room - wire::kFragmentHeaderBytes);
  }
  return std::unique_ptr<Endpoint>(
      std::make_unique<UcEndpoint>(std::move(*inner), options, shape_));
}

}  // namespace tutti::device::sim
