// Reliable multicast Broadcast, Allgather and Allgatherv ([Khalilov24] 3, 4): the fast path by
// multicast, the slow path by the fetch ring. The collectives differ only in their blocks: one
// block of the root, or one block of every rank.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/core/operation.hpp"
#include "engine/multicast/multicast_call.hpp"
#include "engine/multicast/multicast_receiver.hpp"
#include "engine/multicast/multicast_recovery.hpp"
#include "engine/multicast/multicast_sender.hpp"
#include "protocol/handshake.hpp"
#include "protocol/ready_barrier.hpp"

namespace tutti::engine {

class MulticastOperation final : public Operation {
 public:
  /// Broadcasts `buffer` from `root`; the buffer is in use until completion.
  static std::unique_ptr<MulticastOperation> broadcast(std::span<std::byte> buffer, Rank root);
  /// Gathers the blocks `own` of all ranks into `receive` at every rank, in rank order. `own` may
  /// be this rank's block of `receive`.
  static std::unique_ptr<MulticastOperation> allgather(std::span<const std::byte> own,
                                                       std::span<std::byte> receive);
  /// Gathers blocks of different sizes: the block of rank r has `sizes[r]` bytes, possibly none,
  /// and goes to the offset `offsets[r]` of `receive`. `sizes` and `offsets` are copied.
  static std::unique_ptr<MulticastOperation> allgatherv(std::span<const std::byte> own,
                                                        std::span<std::byte> receive,
                                                        std::span<const std::uint64_t> sizes,
                                                        std::span<const std::uint64_t> offsets);

  bool prepare(CommunicatorContext& context) override;
  std::uint64_t late_store_bytes() const override { return stored_bytes_; }
  bool confirms_earlier() const override;
  void on_message(Instant now, Rank from, const protocol::Message& message) override;
  void on_chunk(Instant now, const device::ReceivedChunk& chunk,
                device::MulticastQueuePair& queue_pair) override;
  device::Placement landing(const device::MessageHead& chunk, bool begins) override;
  void on_unexpected_chunk(Instant now, std::uint32_t psn, Rank source,
                           std::span<const std::byte> payload) override;
  ReceiveView receive_view() override;
  void on_arrivals(Instant now, const std::vector<Arrival>& arrivals) override;
  void on_completion(Instant now, const device::Completion& completion) override;
  bool poll(Instant now) override;
  Instant next_deadline() const override;
  bool blocked() const override { return sender_.blocked(); }
  bool locally_complete() const override;
  bool done() const override;
  void finish() override;
  observe::Phase phase() const override;
  Missing missing() const override;

 protected:
  void start(Instant now, bool barrier) override;

 private:
  /// The position of one rank's block in the buffer.
  struct BlockExtent {
    std::uint64_t offset_bytes = 0;
    std::uint64_t size_bytes = 0;
  };

  MulticastOperation(const Description& description, std::span<std::byte> buffer,
                     std::span<const std::byte> own, bool gather);

  void build_layout(CommunicatorContext& context);
  void become_ready(Instant now);
  bool on_retransmit_request(Instant now, const protocol::Message& message);
  void leave_copy(Instant now);
  protocol::FetchRing::KeyOf keys();
  void fold_counters();
  /// True if this rank has nothing more to send, to receive or to READ.
  bool settled() const;
  void check_closed();
  void flush(Instant now);

  MulticastCall call_;
  MulticastSender sender_{call_};
  MulticastRecovery recovery_{call_};
  MulticastReceiver receiver_{call_, recovery_};
  std::unique_ptr<protocol::ReadyBarrier> barrier_;
  std::unique_ptr<protocol::Handshake> handshake_;
  /// By rank: position of the rank's block; empty if the blocks have equal sizes and are in rank
  /// order.
  std::vector<BlockExtent> extents_;
  /// Bytes that a late rank stores if all chunks arrive before it begins.
  std::uint64_t stored_bytes_ = 0;
  Instant polled_at_{};
};

}  // namespace tutti::engine
