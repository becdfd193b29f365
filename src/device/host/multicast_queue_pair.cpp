#include "device/host/multicast_queue_pair.hpp"

#include <algorithm>
#include <cstring>

namespace tutti::device::host {

void HostMulticastQueuePair::connect() {
  ring_ = own().chunks(subgroup_);
  for (std::uint32_t r = 0; r < segments_.size(); ++r) {
    if (rank_of(r) != me_) sources_.push_back({rank_of(r), segments_[r].chunks(subgroup_)});
  }
}

bool HostMulticastQueuePair::has_room() {
  const std::uint32_t slots = ring_.shape().slots;
  if (written_ - least_read_ < slots) return true;
  std::uint64_t least = written_;
  for (const Source& one : sources_) {
    least = std::min(least, ring_.read_by(one.rank).load(std::memory_order_acquire));
  }
  least_read_ = least;
  return written_ - least_read_ < slots;
}

std::byte* HostMulticastQueuePair::write_head(const ChunkHead& head) {
  std::byte* const slot = ring_.slot(written_);
  std::memcpy(slot, &head, sizeof head);
  return slot + sizeof head;
}

void HostMulticastQueuePair::publish() {
  ring_.written().store(++written_, std::memory_order_release);
}

Result<std::uint32_t> HostMulticastQueuePair::post(const ChunkRun& run) {
  std::uint32_t accepted = 0;
  for (std::size_t at = 0; at < run.data.size(); at += run.chunk_bytes) {
    if (!has_room()) {
      // This rank first asks to be woken and then checks the room again, so a reader that makes
      // room after the check wakes this rank.
      own().head().wants_room.store(1, std::memory_order_seq_cst);
      if (!has_room()) {
        ++counters_.send_queue_full;
        break;
      }
    }
    const auto bytes = std::min<std::size_t>(run.chunk_bytes, run.data.size() - at);
    std::byte* const payload = write_head({.epoch = run.epoch,
                                           .psn = run.first_psn + accepted,
                                           .bytes = static_cast<std::uint32_t>(bytes)});
    std::memcpy(payload, &run.data[at], bytes);
    publish();
    ++accepted;
    ++counters_.multicast_datagrams_sent;
    counters_.multicast_bytes_sent += bytes;
  }
  // Readers are woken only after a chunk was published. Otherwise two ranks with full rings would
  // keep waking each other until a slow reader makes room.
  if (accepted == 0) return 0u;
  for (const Source& one : sources_) {
    counters_.send_calls += segments_[index(one.rank)].wake(false) ? 1 : 0;
  }
  return accepted;
}

Status HostMulticastQueuePair::post_probe(std::uint32_t attempt, std::uint32_t /*bytes*/) {
  // A full ring needs no probe: it contains an unread probe or unread chunks, and chunks also prove
  // membership.
  if (!has_room()) return {};
  write_head({.epoch = attempt, .probe = 1});
  publish();
  for (const Source& one : sources_) segments_[index(one.rank)].wake(false);
  return {};
}

std::size_t HostMulticastQueuePair::poll(std::span<ReceivedChunk> chunks) {
  std::size_t filled = 0;
  for (Source& source : sources_) {
    filled += poll_source(source, chunks.subspan(filled));
    if (filled == chunks.size()) break;
  }
  // If only probes arrived, the caller has no chunks to release, so the probes are released here.
  if (filled == 0) release();
  return filled;
}

std::size_t HostMulticastQueuePair::poll_source(Source& source, std::span<ReceivedChunk> chunks) {
  const std::uint64_t written = source.ring.written().load(std::memory_order_acquire);
  std::size_t filled = 0;
  // A correct writer is ahead of this reader by at most the length of the ring. Without this check,
  // a forged count could announce any number of probes and fill this rank's memory.
  if (written - source.polled > source.ring.shape().slots) {
    ++counters_.rejected_foreign;
    source.polled = written;
  }
  while (source.polled != written && filled < chunks.size()) {
    const std::byte* const slot = source.ring.slot(source.polled++);
    ChunkHead head;
    std::memcpy(&head, slot, sizeof head);
    if (head.probe != 0) {
      probes_.push_back(source.rank);
    } else if (head.bytes > source.ring.shape().chunk_bytes) {
      ++counters_.rejected_foreign;
    } else {
      chunks[filled++] = {.epoch = head.epoch,
                          .psn = head.psn,
                          .source = source.rank,
                          .payload = {slot + sizeof head, head.bytes},
                          .header = slot};
      ++counters_.multicast_datagrams_received;
    }
  }
  return filled;
}

bool HostMulticastQueuePair::copy_and_verify(const ReceivedChunk& chunk, std::byte* destination) {
  if (destination != nullptr) std::memcpy(destination, chunk.payload.data(), chunk.payload.size());
  counters_.multicast_bytes_received += chunk.payload.size();
  return true;
}

void HostMulticastQueuePair::release() {
  for (Source& source : sources_) {
    if (source.released == source.polled) continue;
    source.released = source.polled;
    source.ring.read_by(me_).store(source.released, std::memory_order_seq_cst);
    const Segment& sender = segments_[index(source.rank)];
    if (sender.head().wants_room.load(std::memory_order_seq_cst) != 0 &&
        sender.head().wants_room.exchange(0) != 0) {
      counters_.send_calls += sender.wake(false) ? 1 : 0;
    }
  }
}

bool HostMulticastQueuePair::pending() const {
  return std::any_of(sources_.begin(), sources_.end(), [](const Source& one) {
    return one.ring.written().load(std::memory_order_acquire) != one.polled;
  });
}

void HostMulticastQueuePair::add_to(EndpointCounters& counters) const {
  counters.multicast_datagrams_sent += counters_.multicast_datagrams_sent;
  counters.multicast_bytes_sent += counters_.multicast_bytes_sent;
  counters.multicast_datagrams_received += counters_.multicast_datagrams_received;
  counters.multicast_bytes_received += counters_.multicast_bytes_received;
  counters.rejected_foreign += counters_.rejected_foreign;
  counters.send_calls += counters_.send_calls;
  counters.send_queue_full += counters_.send_queue_full;
}

}  // namespace tutti::device::host
