// Multicast among the ranks of one host: the sender copies a chunk into its ring, and each receiver
// copies the chunk out. Nothing is lost, because a full ring exerts backpressure.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "device/device.hpp"
#include "device/host/segment.hpp"

namespace tutti::device::host {

class HostMulticastQueuePair final : public MulticastQueuePair {
 public:
  /// `segments` contains the shared segments of all ranks in rank order and must outlive this
  /// object. The segments are used only from `connect` on.
  HostMulticastQueuePair(Rank me, std::uint32_t subgroup, std::span<const Segment> segments)
      : me_(me), subgroup_(subgroup), segments_(segments) {}
  void connect();

  Result<std::uint32_t> post(const ChunkRun& run) override;
  std::uint64_t unsent_bytes() override { return 0; }
  std::size_t poll(std::span<ReceivedChunk> chunks) override;
  bool copy_and_verify(const ReceivedChunk& chunk, std::byte* destination) override;
  void release() override;
  Status post_probe(std::uint32_t attempt, std::uint32_t bytes) override;

  /// True if `poll` would find something.
  bool pending() const;
  /// Returns the ranks whose probes have arrived since the last call.
  std::vector<Rank> take_probes() { return std::exchange(probes_, {}); }
  std::uint32_t subgroup() const { return subgroup_; }
  void add_to(EndpointCounters& counters) const;

 private:
  /// A peer's ring, and this rank's read position in it.
  struct Source {
    Rank rank = kNoRank;
    ChunkRing ring;
    std::uint64_t polled = 0;
    std::uint64_t released = 0;
  };

  bool has_room();
  std::byte* write_head(const ChunkHead& head);
  void publish();
  std::size_t poll_source(Source& source, std::span<ReceivedChunk> chunks);
  const Segment& own() const { return segments_[index(me_)]; }

  Rank me_;
  std::uint32_t subgroup_;
  std::span<const Segment> segments_;
  ChunkRing ring_;
  std::uint64_t written_ = 0;
  std::uint64_t least_read_ = 0;  ///< chunks read by the slowest reader, as last seen by this rank
  std::vector<Source> sources_;
  std::vector<Rank> probes_;
  EndpointCounters counters_;
};

}  // namespace tutti::device::host
