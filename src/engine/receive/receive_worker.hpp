// A receive worker's part in one communicator: the receive side of some of its multicast queue
// pairs ([Khalilov24] 4.3). The worker checks, places, verifies and marks chunks; the owner does
// the rest. Like all of the engine it is poll-driven: the worker's thread calls `poll`.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "device/device.hpp"
#include "engine/receive/receive_view.hpp"
#include "engine/receive/unexpected_chunks.hpp"
#include "tutti/status.hpp"
#include "tutti/units.hpp"

namespace tutti::engine {

class ReceiveWorker : private device::PlacementResolver {
 public:
  /// For each queue pair, up to `unexpected_bytes` of chunks of later collectives are stored.
  ReceiveWorker(ReceiveBoard& board, std::uint64_t unexpected_bytes)
      : board_(board), unexpected_bytes_(unexpected_bytes) {}
  ReceiveWorker(const ReceiveWorker&) = delete;
  ReceiveWorker& operator=(const ReceiveWorker&) = delete;

  /// Assigns a queue pair; must precede the worker's start.
  void add(std::uint32_t subgroup, device::MulticastQueuePair& pair) {
    streams_.push_back({subgroup, &pair, UnexpectedChunks(unexpected_bytes_)});
    (void)pair.set_resolver(this);
  }
  /// Calls `visit` with each descriptor on which the worker's thread waits, until `visit` returns
  /// false.
  template <typename Visit>
  void for_each_descriptor(const Visit& visit) const {
    for (const Stream& stream : streams_) {
      if (!visit(stream.pair->receive_descriptor())) return;
    }
  }

  // Functions for the worker's thread.

  /// Takes a batch from each queue pair; returns true if anything arrived.
  bool poll(Instant now);
  /// Fails the worker's communicator, because `poll` threw. Only the first reason counts.
  void fail(Status reason);
  /// The time at which `poll` must be called even if nothing arrives.
  Instant next_deadline() const { return next_arrival_; }
  /// True if `poll` has something to do even if nothing has arrived. The thread checks this after
  /// it has announced that it will sleep.
  bool due() const;

  // Functions for the owner of the engine.

  /// Sets the function that wakes the worker's thread; must precede the thread's start.
  void on_rouse(std::function<void()> rouse) { rouse_ = std::move(rouse); }
  void rouse() const {
    if (rouse_) rouse_();
  }
  /// The reason why the worker's thread failed the communicator; null if it did not.
  const Status* failure() const {
    return failed_.load(std::memory_order_acquire) ? &failure_ : nullptr;
  }
  /// Moves out the reported Misfit, a chunk that does not fit this rank's call; nothing if there is
  /// none.
  std::optional<Misfit> take_misfit();
  std::uint64_t pin() const { return pin_.load(std::memory_order_seq_cst); }
  std::uint64_t drains_polled_once() const {
    return drains_polled_once_.load(std::memory_order_seq_cst);
  }
  std::uint64_t drains_answered() const { return drains_answered_.load(std::memory_order_seq_cst); }
  bool holds_unexpected() const { return holds_unexpected_.load(std::memory_order_seq_cst); }
  ArrivalQueue& arrivals() { return arrivals_; }
  const ReceiveCounters& counters() const { return counters_; }

 private:
  struct Stream {
    std::uint32_t subgroup;
    device::MulticastQueuePair* pair;
    UnexpectedChunks unexpected;
    /// Number of views published before the last examination of the stored chunks.
    std::uint64_t publications_checked = 0;
    std::uint32_t last_block = 0;
  };
  /// The results of one batch of chunks, all of which the worker handled with the same view.
  struct Batch {
    const ReceiveView* view;
    Instant now;
    Arrival arrival{};
    std::uint64_t fresh = 0;
    bool block_ended = false;
  };
  /// The decision about an arriving chunk.
  enum class Judgement : std::uint8_t {
    place,
    unexpected,
    stale,
    malformed,
    misfit,  ///< a chunk that does not fit the layout of the collective being received
    duplicate,
    unwanted,
  };
  /// Holds the read guard, which protects the view and the objects to which the view points.
  class Pin;

  static bool answer(std::atomic<std::uint64_t>& answered, std::uint64_t asked);
  bool receive(Instant now, Stream& stream);
  bool place_unexpected(Instant now, Stream& stream);
  void on_unexpected_chunk(Batch& batch, Stream& stream, const UnexpectedChunks::Chunk& chunk);
  void on_chunk(Batch& batch, Stream& stream, const device::ReceivedChunk& chunk);
  device::Placement landing(const device::MessageHead& chunk, bool begins) override;
  Judgement judge(const ReceiveView& view, Stream& stream, const device::MessageHead& chunk) const;
  void count(Judgement judgement);
  /// Decides whether to accept a chunk of the collective that this worker receives.
  Judgement judge_current(const ReceiveView& view, Stream& stream, std::uint32_t psn, Rank source,
                          std::size_t bytes) const;
  void on_misfit(Stream& stream, const device::ReceivedChunk& chunk);
  void report(const Misfit& misfit);
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
  Stream* polled_ = nullptr;  ///< stream whose queue pair is being polled, else null
  Pin* poll_pin_ = nullptr;   ///< read guard of the poll in progress, else null
  Misfit misfit_;             ///< misfit for the owner; constant while `misfit_reported_` is set
  std::atomic<bool> misfit_reported_{false};
  Status failure_;  ///< reason of the failure; constant once `failed_` is set
  std::atomic<bool> failed_{false};
  alignas(64) std::atomic<std::uint64_t> pin_{0};  ///< read guard; odd while the worker uses a view
  std::atomic<std::uint64_t> drains_polled_once_{0};
  std::atomic<std::uint64_t> drains_answered_{0};
  std::atomic<bool> holds_unexpected_{false};
};

}  // namespace tutti::engine
