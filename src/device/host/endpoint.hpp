// The endpoint of a communicator whose ranks all share one host.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "device/device.hpp"
#include "device/host/direct_reads.hpp"
#include "device/host/multicast_queue_pair.hpp"
#include "device/host/segment.hpp"
#include "device/host/slot_exchange.hpp"
#include "device/rc/channel_set.hpp"
#include "device/rc/completion_queue.hpp"

namespace tutti::device::host {

class HostEndpoint final : public Endpoint, private rc::FrameSocket {
 public:
  static Result<std::unique_ptr<Endpoint>> open(const EndpointOptions& options);
  ~HostEndpoint() override;

  const Capabilities& capabilities() const override { return capabilities_; }
  std::string description() const override;
  std::vector<std::byte> address() const override { return own().address().encode(); }
  Status connect(std::span<const std::vector<std::byte>> addresses) override;
  std::uint32_t subgroup_count() const override {
    return static_cast<std::uint32_t>(groups_.size());
  }
  MulticastQueuePair& multicast(std::uint32_t subgroup) override { return *groups_[subgroup]; }
  SlotExchange* slot_exchange() override { return &slot_exchange_; }
  Result<MemoryKey> register_memory(std::span<std::byte> memory) override;
  void deregister_memory(MemoryKey key) override;
  void use_matcher(MessageMatcher* matcher) override { completions_.use_matcher(matcher); }
  std::size_t max_message_bytes() const override { return channels_.config().max_message_bytes; }
  Status post(Instant now, const WorkRequest& request) override;
  std::size_t poll(Instant now, std::span<Completion> completions) override;
  void watch(Rank peer, bool on) override { channels_.watch(now_, peer, on); }
  void release_peer(Rank peer) override { channels_.release_peer(peer); }
  void abandon() override;
  bool quiet() const override { return channels_.quiet() && reads_.empty(); }
  Instant next_deadline() const override;
  int wait_descriptor() const override { return own().bell_descriptor(); }
  bool prepare_wait() override;
  // Has no effect, because this rank is woken in any case: by the reader that makes room in a chunk
  // ring, or by the ACKs of the peer that has read frames from a full frame ring.
  void notify_when_sendable(bool) override {}
  EndpointCounters counters() const override;

 private:
  struct Peer {
    FrameWriter out;
    FrameReader in;
    /// True: a frame, perhaps only an ACK, found no room. Only the peer's ACKs report that it has
    /// read frames.
    bool ring_full = false;
  };

  HostEndpoint(const EndpointOptions& options, const SegmentShape& shape, Segment own);

  const Segment& own() const { return segments_[index(options_.rank)]; }
  void rise();
  bool receive(Instant now) override;
  void receive_from(Instant now, Rank rank, Peer& peer);
  bool send(Instant now, Rank rank, rc::RcChannel& rc) override;
  void collect_probes();
  bool anything_to_poll() const;

  EndpointOptions options_;
  SegmentShape shape_;
  Capabilities capabilities_;
  std::vector<Segment> segments_;  ///< shared segments of all ranks, indexed by rank
  std::vector<std::unique_ptr<HostMulticastQueuePair>> groups_;
  HostSlotExchange slot_exchange_;
  std::vector<Peer> peers_;
  rc::ChannelSet channels_;
  DirectReads reads_;
  rc::CompletionQueue completions_;
  Instant now_{};
  bool slept_ = false;  ///< true from `prepare_wait` until the next poll
  EndpointCounters counters_;
};

}  // namespace tutti::device::host
