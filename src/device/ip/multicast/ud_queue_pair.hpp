// UD multicast over UDP ([Khalilov24] 3.2): a chunk is a datagram.
#pragma once

#include "device/ip/datagram_batch.hpp"
#include "device/ip/multicast/multicast_queue_pair.hpp"

namespace tutti::device::ip {

class UdQueuePair final : public IpMulticastQueuePair {
 public:
  UdQueuePair(const GroupSettings& settings, std::uint32_t subgroup, bool offload)
      : IpMulticastQueuePair(settings, subgroup, offload) {}

  Result<std::uint32_t> post(const ChunkRun& run) override;
  std::size_t poll(std::span<ReceivedChunk> chunks) override;

 private:
  // Four 64 KiB staging slots and the destination together fit into a 512 KiB second-level cache.
  static constexpr std::size_t kReceiveSlots = 4;

  DatagramBatch batch_{kReceiveSlots};
};

}  // namespace tutti::device::ip
