// A receive worker's part in one communicator (K8, K9): the receive side of some of its multicast
// queue pairs. It checks, places, verifies and marks chunks; what follows from them is the
// driver's. Poll-driven like all of the engine: a thread, the worker, calls `poll`.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "device/device.hpp"
#include "engine/core/unexpected_chunks.hpp"
#include "engine/receive/receive_view.hpp"
#include "tutti/units.hpp"

namespace tutti::engine {

class ReceiveWorker : private device::PlacementResolver {
 public:
  /// Keeps, of each queue pair, up to `unexpected_bytes` of chunks of collectives not begun here.
  ReceiveWorker(ReceiveBoard& board, std::uint64_t unexpected_bytes)
      : board_(board), unexpected_bytes_(unexpected_bytes) {}
  ReceiveWorker(const ReceiveWorker&) = delete;
  ReceiveWorker& operator=(const ReceiveWorker&) = delete;

  /// Gives it a queue pair, before it runs.
  void add(std::uint32_t subgroup, device::MulticastQueuePair& pair) {
    streams_.push_back({subgroup, &pair, UnexpectedChunks(unexpected_bytes_)});
    (void)pair.set_resolver(this);
  }
  /// What its thread waits on.
  std::vector<int> descriptors() const;

  // By its thread.
  /// A batch from each queue pair; returns whether anything came.
  bool poll(Instant now);
  /// When `poll` must be called though nothing arrives.
  Instant next_deadline() const { return next_arrival_; }
  /// Whether `poll` has something to do now though nothing has arrived. A thread that is going to
  /// sleep asks after it has said so.
  bool due() const;

  // By the driver.
  /// Sets what wakes its thread, before it runs.
  void on_rouse(std::function<void()> rouse) { rouse_ = std::move(rouse); }
  void rouse() const {
    if (rouse_) rouse_();
  }
  std::uint64_t pin() const { return pin_.load(std::memory_order_seq_cst); }
  std::uint64_t looks_glanced() const { return looks_glanced_.load(std::memory_order_seq_cst); }
  std::uint64_t looks_answered() const { return looks_answered_.load(std::memory_order_seq_cst); }
  bool holds_unexpected() const { return holds_unexpected_.load(std::memory_order_seq_cst); }
  ArrivalQueue& arrivals() { return arrivals_; }
  const ReceiveCounters& counters() const { return counters_; }

 private:
  struct Stream {
    std::uint32_t subgroup;
    device::MulticastQueuePair* pair;
    UnexpectedChunks early;
    std::uint64_t early_checked = 0;  ///< publications that the early chunks were compared with
    std::uint32_t last_block = 0;
  };
  /// What the chunks of a batch, by one view, amount to.
  struct Batch {
    const ReceiveView* view;
    Instant now;
    Arrival arrival{};
    std::uint64_t fresh = 0;
    bool block_ended = false;
  };
  /// What becomes of a chunk.
  enum class Judgement : std::uint8_t { place, early, stale, malformed, duplicate, unwanted };
  /// Holds on to the view and to what it points to.
  class Pin;

  static bool answer(std::atomic<std::uint64_t>& answered, std::uint64_t asked);
  bool receive(Instant now, Stream& stream);
  bool place_unexpected(Instant now, Stream& stream);
  void on_unexpected_chunk(Batch& batch, Stream& stream, const UnexpectedChunks::Chunk& chunk);
  void on_chunk(Batch& batch, Stream& stream, const device::ReceivedChunk& chunk);
  device::Placement landing(const device::MessageHead& chunk, bool begins) override;
  Judgement judge(const ReceiveView& view, Stream& stream, const device::MessageHead& chunk) const;
  void count(Judgement judgement);
  /// Whether the chunk is one of this queue pair's in the collective of the view.
  static bool belongs(const ReceiveView& view, Stream& stream, std::uint32_t psn, Rank source,
                      std::size_t bytes);
  bool here(const ReceiveView& view, const Stream& stream, std::uint32_t psn) const;
  void keep(Stream& stream, const device::ReceivedChunk& chunk);
  void note(Batch& batch, std::uint32_t subgroup, std::uint32_t block_index, std::uint32_t psn,
            std::size_t bytes);
  bool close(Batch& batch, std::uint32_t subgroup);
  void tell(bool urgent);

  ReceiveBoard& board_;
  std::function<void()> rouse_;
  std::vector<Stream> streams_;
  std::uint64_t unexpected_bytes_;
  Instant next_arrival_ = kNever;
  ArrivalQueue arrivals_;
  ReceiveCounters counters_;
  std::array<device::ReceivedChunk, 256> chunks_;
  Stream* polled_ = nullptr;                       ///< while its queue pair is polled ...
  Pin* poll_pin_ = nullptr;                        ///< ... and what holds on to the view then
  alignas(64) std::atomic<std::uint64_t> pin_{0};  ///< odd: goes by a view
  std::atomic<std::uint64_t> looks_glanced_{0};
  std::atomic<std::uint64_t> looks_answered_{0};
  std::atomic<bool> holds_unexpected_{false};
};

}  // namespace tutti::engine
