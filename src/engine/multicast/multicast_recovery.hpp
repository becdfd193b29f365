// The slow path of a multicast collective: decides which chunks are lost and when to stop waiting
// for them, and READs the missing chunks from a peer ([Khalilov24] 3.3).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "engine/multicast/multicast_call.hpp"
#include "engine/multicast/worker_gate.hpp"
#include "protocol/cutoff.hpp"
#include "protocol/fetch_ring.hpp"
#include "protocol/loss_scanner.hpp"

namespace tutti::engine {

class MulticastRecovery {
 public:
  explicit MulticastRecovery(MulticastCall& call) : call_(call), gate_(call) {}

  /// Prepares the recovery; called once the chunk map exists.
  void start();
  void become_ready(Instant now) { next_tick_ = now + tick_interval(); }

  /// Scans for lost chunks when a scan is due, and checks whether the cutoff has expired.
  void poll(Instant now) {
    tick(now);
    check_cutoff(now);
  }
  Instant next_deadline() const;
  /// Records that a block was sent completely, so that its missing chunks count as lost.
  void block_ended(std::uint32_t block_index);
  /// Called when every block's last chunk has arrived: the next scan comes as soon as reordering is
  /// ruled out.
  void hasten(Instant now);
  void cut_off(Instant now, protocol::CutoffReason reason);

  /// Stores a peer's answer that offers chunk ranges. `order_reads` later READs those chunks that
  /// have not arrived by then.
  void add_answer(Instant now, Rank from, const protocol::Message& message);
  void order_reads(Instant now);
  /// Handles an answer that grants no READ; false if the answer is illegal.
  bool on_refusal(Instant now, Rank from, const protocol::Message& message) {
    return call_.fetch->on_answer(now, from, message, call_.outbox, orders_);
  }
  /// Handles the end of a READ; returns the block whose chunks it brought.
  std::optional<std::uint32_t> on_completion(const device::Completion& completion);
  std::uint32_t open_reads() const { return open_reads_; }
  /// Fails the communicator if this rank lacks chunks that no rank will send or serve any more.
  void check_served();

  /// Tells GroupMembership from which ranks chunks came by multicast; called when the collective
  /// has ended.
  void judge_sources(Instant now);

  /// The memory key of a block in the receive buffer; the first call registers the memory.
  std::uint64_t key_of(std::uint32_t block_index);
  void release_keys();

  const WorkerGate& gate() const { return gate_; }

 private:
  struct Read {
    protocol::ReadOrder order;
    bool open = false;
  };

  CommunicatorContext& context() const { return *call_.context; }
  void fail_unserved(Rank by);
  void tick(Instant now);
  Nanoseconds tick_interval() const;
  void declare(Instant now);
  void check_cutoff(Instant now);
  bool enquires(Instant now);
  bool answers_enquiry(const protocol::Message& message) const;
  void post_read(Instant now, const protocol::ReadOrder& order);

  MulticastCall& call_;
  WorkerGate gate_;
  std::unique_ptr<protocol::LossScanner> scanner_;
  /// True: the right neighbour is done, so every chunk has left its sender.
  bool right_neighbour_done_ = false;
  Instant next_tick_ = kNever;
  std::uint32_t silences_ = 0;  ///< number of times that the silence timeout has expired
  std::vector<protocol::LostRun> lost_;
  std::vector<FetchAnswer> answers_;
  /// The READs of the stored answers wait until this time; kNever: they do not wait.
  Instant read_at_ = kNever;
  std::vector<protocol::ReadOrder> orders_;
  std::vector<Read> reads_;
  std::uint32_t open_reads_ = 0;
  /// By block: number of chunks that READs brought; empty before the first successful READ.
  std::vector<std::uint32_t> fetched_;
  /// Keys of the blocks if ranks may place the blocks at different offsets; otherwise one key of
  /// the whole buffer.
  std::vector<std::optional<device::MemoryKey>> keys_;
};

}  // namespace tutti::engine
