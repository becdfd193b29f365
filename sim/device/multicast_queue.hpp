// The UD multicast of a simulated NIC. Sends wait in a queue of the NIC. Each arriving chunk
// occupies a posted receive; if none is posted, the chunk is lost (receiver not ready).
#pragma once

#include <cstdint>
#include <span>

#include "device/device.hpp"
#include "sim/device/nic_connection.hpp"
#include "sim/device/nic_port.hpp"
#include "sim/device/payload_store.hpp"
#include "sim/device/ring_queue.hpp"
#include "wire/header.hpp"

namespace tutti::device::sim {

/// A chunk that has arrived and occupies a posted receive.
struct StagedChunk {
  std::uint32_t epoch = 0;
  std::uint32_t psn = 0;
  Rank source = kNoRank;
  std::uint32_t size_bytes = 0;
  Payload* payload = nullptr;  ///< wire header and data of the chunk; null if packets carry no data
  Instant visible{};
};

/// The packets that a queue sends in one turn. All packets have the same size, except that the last
/// one may be shorter.
struct MulticastBurst {
  std::uint32_t epoch = 0;
  std::uint32_t first_psn = 0;
  std::uint32_t count = 0;  ///< number of packets; 0 if the burst is a probe
  std::uint32_t chunk_bytes = 0;
  std::span<const std::byte> data;
};

/// Allocates a payload that contains the header, the bytes and a tag over both, with one reference
/// for each of `references` receivers.
Payload* make_chunk(PayloadStore& payloads, const wire::Header& header,
                    std::span<const std::byte> bytes, std::uint32_t references);

class SimMulticastQueuePair final : public MulticastQueuePair {
 public:
  /// `port` and `nic` must outlive this object. `subgroup` is also the number of this queue in
  /// `port`.
  SimMulticastQueuePair(NicPort& port, NicShared& nic, std::uint32_t subgroup)
      : port_(&port), nic_(&nic), subgroup_(subgroup) {}

  Result<std::uint32_t> post(const ChunkRun& run) override;
  std::uint64_t unsent_bytes() override;
  /// True while sends are queued, because the NIC reads the data of a send only when the data
  /// leaves.
  bool reads_posted() override { return queued_bytes_ > 0; }
  std::size_t poll(std::span<ReceivedChunk> chunks) override;
  bool copy_and_verify(const ReceivedChunk& chunk, std::byte* destination) override;
  void release() override;
  Instant next_arrival(Instant /*now*/) override { return next_visible(); }
  Status post_probe(std::uint32_t attempt, std::uint32_t bytes) override;

  std::uint32_t subgroup() const { return subgroup_; }

  // Whether the NIC has a packet of this queue to send.
  bool has_output() const { return !sends_.empty(); }
  /// Whether the NIC must still read data in `memory` for a queued send.
  bool sends_from(std::span<const std::byte> memory) const;
  /// Takes the next burst, of at most `limit` packets, from the send queue.
  MulticastBurst next_burst(std::uint32_t limit);
  /// Must be called for each burst that next_burst() has returned. `bytes` is the size of the
  /// burst, and `end` is the instant at which its last bit leaves the host.
  void departs(std::uint64_t bytes, Instant end) {
    departing_bytes_ = bytes;
    departs_at_ = end;
  }
  void departed(Instant when) {
    if (departs_at_ == kNever) departs_at_ = when;
  }
  /// Receives a chunk and takes over its reference to the payload. Returns false if no receive is
  /// posted, in which case the chunk is lost.
  bool arrive(const StagedChunk& chunk);
  Instant next_visible() const { return lent_ < staged_.size() ? staged_[lent_].visible : kNever; }
  /// Releases all payloads.
  void clear();

 private:
  RingQueue<MulticastBurst> sends_;
  std::uint32_t queued_chunks_ = 0;
  std::uint64_t queued_bytes_ = 0;
  std::uint64_t departing_bytes_ = 0;
  Instant departs_at_{};
  RingQueue<StagedChunk> staged_;
  /// Number of staged chunks that poll() has returned and release() has not yet freed.
  std::uint32_t lent_ = 0;
  NicPort* port_;
  NicShared* nic_;
  std::uint32_t subgroup_;
};

}  // namespace tutti::device::sim
