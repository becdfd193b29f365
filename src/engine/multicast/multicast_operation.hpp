// Reliable multicast Broadcast, Allgather and Allgatherv ([Khalilov24] 3, 4): the fast path by
// multicast, the slow path by the fetch ring. They differ only in their blocks: one of the root, or
// one of every rank.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/shared_bits.hpp"
#include "engine/core/operation.hpp"
#include "engine/multicast/arrival_meter.hpp"
#include "engine/multicast/block_sender.hpp"
#include "engine/multicast/multicast_trace.hpp"
#include "engine/receive/receive_team.hpp"
#include "protocol/block_layout.hpp"
#include "protocol/chunk_map.hpp"
#include "protocol/credit_window.hpp"
#include "protocol/cutoff.hpp"
#include "protocol/fetch_ring.hpp"
#include "protocol/handshake.hpp"
#include "protocol/loss_scanner.hpp"
#include "protocol/pace.hpp"
#include "protocol/ready_barrier.hpp"
#include "protocol/send_schedule.hpp"
#include "protocol/sequencer.hpp"

namespace tutti::engine {

class MulticastOperation final : public Operation {
 public:
  /// A broadcast of `buffer` from `root`; the buffer is in use until completion.
  static std::unique_ptr<MulticastOperation> broadcast(std::span<std::byte> buffer, Rank root);
  /// Gathers every rank's `own` (receive.size() / size bytes) in every rank's `receive`, by rank.
  /// `own` may be the rank's own place in `receive`.
  static std::unique_ptr<MulticastOperation> allgather(std::span<const std::byte> own,
                                                       std::span<std::byte> receive);
  /// The same with a block of `sizes[r]` bytes (possibly none) at `offsets[r]` of `receive` for
  /// each rank r; both spans are copied.
  static std::unique_ptr<MulticastOperation> allgatherv(std::span<const std::byte> own,
                                                        std::span<std::byte> receive,
                                                        std::span<const std::uint64_t> sizes,
                                                        std::span<const std::uint64_t> offsets);

  bool prepare(CommunicatorContext& context) override;
  std::uint64_t multicast_bytes() const override { return data_bytes_; }
  bool confirms_earlier() const override { return gather_ && data_bytes_ > 0; }
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
  bool blocked() const override { return sender_ && sender_->blocked(); }
  bool locally_complete() const override;
  bool done() const override;
  void finish() override;
  observe::Phase phase() const override;
  std::string missing() const override;

 protected:
  void start(Instant now, bool barrier) override;

 private:
  /// A rank's block in the buffer.
  struct BlockExtent {
    std::uint64_t offset_bytes = 0;
    std::uint64_t size_bytes = 0;
  };
  struct Answer {
    Rank from;
    protocol::Message message;
  };
  struct Read {
    protocol::ReadOrder order;
    bool open = false;
  };
  static constexpr std::uint32_t kNoBlock = 0xffff'ffffu;

  MulticastOperation(const Description& description, std::span<std::byte> buffer,
                     std::span<const std::byte> own, bool gather);

  // Set-up.
  void build_layout();
  void admit_own_block();
  void become_ready(Instant now);

  // Receiving.
  bool belongs(std::uint32_t psn, Rank source, std::size_t bytes);
  void on_malformed(Rank source);
  void on_misfit(const device::ReceivedChunk& chunk, device::MulticastQueuePair& queue_pair);
  void on_other_sizes(Rank source, std::size_t bytes);
  std::byte* place_of(std::uint32_t psn, bool counted);
  void on_marked(Instant now, std::uint32_t block_index);
  void begin_block(std::uint32_t block_index);
  void end_blocks_before(std::uint32_t block_index);
  void on_block_end(Instant now);
  void cast_vote(Instant now);
  std::uint64_t excess_rate() const;
  std::uint64_t activation_threshold_bytes() const;
  bool received_all() const { return map_ && map_->complete(); }
  /// Whether missing chunks may have to be requested.
  bool may_lack() const { return ready_ && !lossless_ && !received_all(); }

  // Sending.
  bool send_some(Instant now);
  bool send_block(Instant now);
  void place_own_up_to(std::uint32_t psn);
  void watch_readers();
  void note_stall(Instant now, bool stalled, bool worked);
  void finish_sending(Instant now);
  void send_tail_probe(Instant now);
  void leave_copy(Instant now);

  // Recovery.
  void tick(Instant now);
  void declare(Instant now);
  Nanoseconds tick_interval() const;
  void judge_ends();
  bool unread(Instant now);
  void check_cutoff(Instant now);
  void cut_off(Instant now, protocol::CutoffReason reason);
  void order_reads(Instant now);
  bool workers_keep_off();
  void let_workers_on(Range psns);
  void post_read(Instant now, const protocol::ReadOrder& order);
  void fail_unserved(Rank root);
  std::uint64_t key();
  void fold_counters();

  /// Whether no message is left to send or to expect.
  bool settled() const;
  void flush(Instant now);

  std::span<std::byte> buffer_;
  std::span<const std::byte> own_;
  bool gather_;
  std::vector<BlockExtent> places_;  ///< by rank; empty: equal blocks in rank order
  std::uint64_t data_bytes_ = 0;     ///< sum over all blocks
  bool retains_copy_ = false;        ///< the root retains a copy, and there is no handshake
  bool lossless_ = false;            ///< nothing can be lost: neither recovery nor handshake

  protocol::BlockLayout layout_;
  std::unique_ptr<protocol::ChunkMap> map_;
  std::unique_ptr<protocol::Sequencer> sequencer_;
  std::unique_ptr<protocol::ReadyBarrier> barrier_;
  std::unique_ptr<protocol::Cutoff> cutoff_;
  std::unique_ptr<protocol::LossScanner> scanner_;
  std::unique_ptr<protocol::FetchRing> fetch_;
  std::unique_ptr<protocol::CreditWindow> credits_;
  std::unique_ptr<protocol::Handshake> handshake_;
  protocol::Outbox outbox_;
  MulticastTrace trace_;

  std::uint32_t own_block_ = kNoBlock;
  std::uint64_t own_placed_bytes_ = 0;  ///< of this rank's block, copied to its place
  std::uint32_t last_block_ = 0;        ///< block of the last chunk; most chunks are consecutive
  std::vector<bool> first_chunk_seen_;  ///< by block: any chunk has arrived
  std::uint32_t ends_seen_ = 0;         ///< blocks whose last chunk has arrived
  std::uint32_t ends_expected_ = 0;
  protocol::SendSchedule::Plan plan_;
  std::uint32_t chains_ = 1;
  std::unique_ptr<BlockSender> sender_;  ///< null without a block of this rank
  std::unique_ptr<ArrivalMeter> meter_;
  bool ready_ = false;
  bool activated_ = false;
  bool sent_all_ = true;
  bool dirty_ = false;  ///< state changed since the machines last ran
  bool successor_activated_ = false;
  bool readers_watched_ = false;
  bool right_neighbour_done_ =
      false;  ///< every chunk was sent; those not in our own queue are lost
  std::vector<Range> hinted_;
  Instant ready_at_{};
  Instant data_end_{};
  Instant stalled_since_{};
  Instant next_tick_ = kNever;
  Instant next_repeat_ = kNever;
  Nanoseconds repeat_after_{};
  Instant last_arrival_{};
  Instant polled_at_{};
  std::uint32_t silences_ = 0;  ///< times that the silence timeout expired
  std::vector<protocol::LostRun> lost_;
  std::vector<Answer> ready_answers_;
  std::vector<protocol::ReadOrder> orders_;
  std::vector<Read> reads_;
  std::uint32_t open_reads_ = 0;

  // With receive workers only.
  SharedBitmap read_locked_;             ///< by PSN: being READ
  std::size_t answers_read_locked_ = 0;  ///< the first of `ready_answers_`: locked against workers
  ReceiveTeam::GracePeriod grace_;       ///< grace period after the lock
  std::vector<std::uint32_t> open_blocks_;  ///< whose last chunk has not arrived
  std::vector<std::uint32_t> sender_done_;  ///< blocks that were sent completely
  std::vector<std::uint32_t>
      pending_done_;  ///< the same; missing chunks are lost once the drain finds nothing
  std::optional<std::uint64_t> look_at_end_;
  std::optional<std::uint64_t> look_at_cutoff_;
  std::optional<std::uint64_t> look_at_answers_;
  Instant cutoff_at_{};
  device::MemoryKey key_;
  bool registered_ = false;
};

}  // namespace tutti::engine
