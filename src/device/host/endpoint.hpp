// One rank's presence in a communicator whose ranks share a host.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "device/device.hpp"
#include "device/host/multicast_queue_pair.hpp"
#include "device/host/segment.hpp"
#include "device/rc/completion_queue.hpp"
#include "device/rc/memory_table.hpp"
#include "device/rc/rc_channel.hpp"

namespace tutti::device::host {

class HostEndpoint final : public Endpoint {
 public:
  static Result<std::unique_ptr<Endpoint>> open(const EndpointOptions& options);

  const Capabilities& capabilities() const override { return capabilities_; }
  std::string description() const override;
  std::vector<std::byte> address() const override { return own().address().encode(); }
  Status connect(std::span<const std::vector<std::byte>> addresses) override;
  std::uint32_t subgroup_count() const override {
    return static_cast<std::uint32_t>(groups_.size());
  }
  MulticastQueuePair& multicast(std::uint32_t subgroup) override { return *groups_[subgroup]; }
  Result<MemoryKey> register_memory(std::span<std::byte> memory) override {
    return memory_.add(memory);
  }
  void deregister_memory(MemoryKey key) override { memory_.remove(key); }
  std::size_t max_message_bytes() const override { return rc_.max_message_bytes; }
  Status post(Instant now, const WorkRequest& request) override;
  std::size_t poll(Instant now, std::span<Completion> completions) override;
  void watch(Rank peer, bool on) override { channel(peer).watch(on, now_); }
  void abandon() override;
  bool quiet() const override;
  Instant next_deadline() const override;
  int wait_descriptor() const override { return own().bell_descriptor(); }
  bool prepare_wait() override;
  void notify_when_sendable(bool) override {}  // whoever makes room wakes us
  EndpointCounters counters() const override;

 private:
  struct Peer {
    FrameWriter out;
    FrameReader in;
    std::unique_ptr<rc::RcChannel> channel;
  };

  HostEndpoint(const EndpointOptions& options, const SegmentShape& shape, Segment own);

  const Segment& own() const { return segments_[index(options_.rank)]; }
  rc::RcChannel& channel(Rank rank);
  void rise();
  void receive(Instant now, Rank rank, Peer& peer);
  void transmit(Instant now, Rank rank, Peer& peer);
  void collect_probes();
  bool anything_to_poll() const;

  EndpointOptions options_;
  SegmentShape shape_;
  Capabilities capabilities_;
  std::vector<Segment> segments_;  ///< by rank
  std::vector<std::unique_ptr<HostMulticastQueuePair>> groups_;
  std::vector<Peer> peers_;
  std::vector<Rank> open_;  ///< peers that have a channel
  rc::RcConfig rc_;
  rc::RcCounters rc_counters_;
  rc::MemoryTable memory_;
  rc::CompletionQueue completions_;
  Instant now_{};
  bool slept_ = false;  ///< may have been woken since the last poll
  EndpointCounters counters_;
};

}  // namespace tutti::device::host
