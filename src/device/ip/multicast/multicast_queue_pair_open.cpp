#include "device/ip/multicast/multicast_queue_pair.hpp"
#include "device/ip/multicast/uc_queue_pair.hpp"
#include "device/ip/multicast/ud_queue_pair.hpp"

namespace tutti::device::ip {

Result<std::unique_ptr<IpMulticastQueuePair>> IpMulticastQueuePair::open(
    const GroupSettings& settings, const Interface& interface, const SocketAddress& group,
    std::uint32_t subgroup) {
  auto probe = open_udp(group.family());
  if (!probe) return probe.status();
  const bool offload = probe_send_offload(probe->get());
  std::unique_ptr<IpMulticastQueuePair> pair;
  if (settings.multicast == Multicast::uc) {
    pair = std::make_unique<UcQueuePair>(settings, subgroup, offload);
  } else {
    pair = std::make_unique<UdQueuePair>(settings, subgroup, offload);
  }
  if (Status status = pair->open_receive(interface, group); !status) return status;
  if (Status status = pair->open_send(interface, group); !status) return status;
  return pair;
}

}  // namespace tutti::device::ip
