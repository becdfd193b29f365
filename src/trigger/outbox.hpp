// The outgoing packets of a unit, which wait here until the network takes them. A unit that must
// send waits while its outbox is full.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "trigger/packet.hpp"
#include "trigger/ring.hpp"

namespace tutti::trigger {

/// An outgoing packet. Its payload remains valid until pop(). The payload of an RDMA packet may lie
/// in the job's memory, which must then not change until the collective has ended.
struct OutgoingPacket {
  PacketHeader header;
  std::span<const std::byte> payload;
};

class PacketOutbox {
 public:
  PacketOutbox(std::size_t packets, std::size_t slot_bytes) : ring_(packets) {
    for (std::size_t i = 0; i < packets; ++i) {
      ring_.next_free().copy.reserve(slot_bytes);
      ring_.push();
      ring_.pop();
    }
  }

  bool empty() const { return ring_.empty(); }
  bool full() const { return ring_.full(); }
  std::size_t size() const { return ring_.size(); }
  /// Queues a packet; the outbox must not be full. With `in_memory` the packet refers to a payload
  /// in the job's memory; otherwise the payload is copied.
  void push(const PacketHeader& header, std::span<const std::byte> payload, bool in_memory) {
    Entry& entry = ring_.next_free();
    if (!in_memory) {
      entry.copy.assign(payload.begin(), payload.end());
      payload = entry.copy;
    }
    entry.packet = {header, payload};
    entry.in_memory = in_memory;
    ring_.push();
  }
  /// Copies the payloads in the job's memory, so that the host may change or free this memory. With
  /// `port`, copies only those of packets from this port.
  void copy_from_memory(JobId job, std::optional<Port> port = std::nullopt) {
    for (std::size_t i = 0; i < ring_.size(); ++i) {
      Entry& entry = ring_[i];
      const PacketKey& key = entry.packet.header.key;
      if (!entry.in_memory || key.job != job || (port && key.port != *port)) continue;
      entry.copy.assign(entry.packet.payload.begin(), entry.packet.payload.end());
      entry.packet.payload = entry.copy;
      entry.in_memory = false;
    }
  }
  const OutgoingPacket& front() const { return ring_.front().packet; }
  void pop() { ring_.pop(); }

 private:
  struct Entry {
    OutgoingPacket packet;
    std::vector<std::byte> copy;
    bool in_memory = false;
  };
  Ring<Entry> ring_;
};

}  // namespace tutti::trigger
