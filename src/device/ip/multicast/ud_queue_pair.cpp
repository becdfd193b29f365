#include "device/ip/multicast/ud_queue_pair.hpp"

#include <algorithm>

namespace tutti::device::ip {

Result<std::uint32_t> UdQueuePair::post(const ChunkRun& run) {
  std::uint32_t accepted = 0;
  std::size_t offset = 0;
  std::uint32_t psn = run.first_psn;
  const std::size_t end = begin_post(run);
  while (offset < end) {
    std::size_t batch_bytes = 0;
    while (offset + batch_bytes < end) {
      const std::size_t at = offset + batch_bytes;
      const std::size_t size = std::min<std::size_t>(run.chunk_bytes, run.data.size() - at);
      if (!sender().fits(wire::kHeaderBytes + size)) break;
      const auto payload = run.data.subspan(at, size);
      write_header(wire::PacketKind::chunk, run.epoch,
                   psn + static_cast<std::uint32_t>(sender().count()), payload,
                   sender().header_slot());
      sender().add(wire::kHeaderBytes, payload);
      batch_bytes += size;
    }
    const std::size_t count = sender().count();
    auto sent = sender().flush(send_fd(), unicast_address(run.to));
    if (!sent) return sent.status();
    const std::size_t bytes = std::min(batch_bytes, *sent * run.chunk_bytes);
    accepted += static_cast<std::uint32_t>(*sent);
    psn += static_cast<std::uint32_t>(*sent);
    offset += bytes;
    counters().multicast_datagrams_sent += *sent;
    counters().multicast_bytes_sent += bytes;
    if (*sent < count) return posted(run, accepted, true);
  }
  return posted(run, accepted, end < run.data.size());
}

std::size_t UdQueuePair::poll(std::span<ReceivedChunk> chunks) {
  if (!batch_.pending()) {
    ++received().calls;
    if (batch_.receive(receive_descriptor()) == 0) return 0;
  }
  std::size_t filled = 0;
  while (filled < chunks.size()) {
    const auto datagram = batch_.next();
    if (!datagram) break;
    const auto header = accept(wire::PacketKind::chunk, *datagram, batch_.sender());
    if (!header) continue;
    ++received().datagrams;
    chunks[filled++] = {header->epoch, header->psn, header->source,
                        datagram->subspan(wire::kHeaderBytes), datagram->data()};
  }
  return filled;
}

}  // namespace tutti::device::ip
