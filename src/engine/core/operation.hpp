// One collective in flight at one rank, as the engine sees it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "device/device.hpp"
#include "observe/counters.hpp"
#include "observe/flight_recorder.hpp"
#include "protocol/codec/message.hpp"
#include "tutti/status.hpp"
#include "tutti/units.hpp"

namespace tutti::engine {

class CommunicatorContext;
struct Arrival;
struct ReceiveView;

/// What the application sees of a collective. Written by the engine, read by any thread.
struct Completion {
  std::atomic<bool> done{false};
  Status status;                                ///< valid once done
  std::function<void(const Status&)> callback;  ///< called by the engine's thread, once, at the end
  std::atomic<std::uint64_t> chunks_present{0};
  std::atomic<std::uint64_t> chunks_total{0};
  /// Where a short collective, or the part of one that goes on, meets at a board, by which alone it
  /// ends; null: it needs more of the engine. Set before it is begun.
  std::atomic<CommunicatorContext*> inline_poll_context{nullptr};
};

/// What an operation is, for messages and records.
struct Description {
  const char* operation = "";  ///< "allgather"
  const char* algorithm = "";  ///< "multicast"
  Rank root = kNoRank;
  std::uint64_t bytes = 0;
};

/// Base of all collectives: fed by the engine with messages, chunks and completions; driven by
/// `poll`. Used by the engine's thread only.
class Operation {
 public:
  explicit Operation(Description description)
      : description_(description), completion_(std::make_shared<Completion>()) {}
  virtual ~Operation() = default;
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  const Description& description() const { return description_; }
  const std::shared_ptr<Completion>& completion() const { return completion_; }
  std::uint32_t epoch() const { return epoch_; }
  Instant started() const { return started_; }

  /// Payload that all ranks together multicast: what the ready policy counts. The same on all
  /// ranks.
  virtual std::uint64_t multicast_bytes() const { return 0; }
  /// An upper bound of what a rank may be sent, in messages, before it has called this collective.
  /// The same on all ranks. What is too much waits for a ready barrier.
  virtual std::uint64_t unexpected_bytes() const { return 0; }
  /// Whether finishing this operation proves that every rank had finished the ones before.
  virtual bool confirms_earlier() const { return false; }

  /// Whether its end here proves that every rank had begun it.
  bool begun_by_all() const { return begun_by_all_; }

  /// Chooses how to run, before `begin`; returns whether a vote rides on the ready barrier, which
  /// then has to run. The same on all ranks.
  virtual bool prepare(CommunicatorContext&) { return false; }
  /// Begins. `barrier`: the ready barrier must run before data is sent.
  void begin(Instant now, std::uint32_t epoch, bool barrier, CommunicatorContext& context) {
    epoch_ = epoch;
    started_ = now;
    context_ = &context;
    begun_by_all_ = barrier || confirms_earlier();
    start(now, barrier);
  }
  /// A message of this collective's protocol; rejected where it has none.
  virtual void on_message(Instant now, Rank from, const protocol::Message& message);
  /// A schedule's data in a message; `payload` is valid during the call.
  virtual void on_data(Instant now, Rank from, std::uint32_t slot,
                       std::span<const std::byte> payload);
  /// A schedule's data was written to where this rank asked for it.
  virtual void on_immediate(Instant now, Rank from, std::uint32_t slot);
  /// A chunk of this collective; false where it was a duplicate or could not be placed.
  virtual void on_chunk(Instant now, const device::ReceivedChunk& chunk,
                        device::MulticastQueuePair& queue_pair);
  /// Where a queue pair that places by itself puts a chunk of this collective (PlacementResolver).
  virtual device::Placement landing(const device::MessageHead& chunk, bool begins);
  /// A chunk that had come before `begin`, already verified.
  virtual void on_unexpected_chunk(Instant now, std::uint32_t psn, Rank source,
                                   std::span<const std::byte> payload);
  /// How receive workers are to place its chunks, asked for once it has begun.
  virtual ReceiveView receive_view();
  /// Receive workers have placed chunks of this collective.
  virtual void on_arrivals(Instant now, const std::vector<Arrival>& arrivals);
  /// A work request of this operation has ended.
  virtual void on_completion(Instant now, const device::Completion& completion);
  /// Sends, checks timers; returns whether anything was done.
  virtual bool poll(Instant now) = 0;
  /// When `poll` must run though nothing arrives.
  virtual Instant next_deadline() const { return kNever; }
  /// Whether what `poll` sends is of no use before all ranks have sent the like: those who share a
  /// core had better begin together than one after the other.
  virtual bool begins_together() const { return false; }
  /// Whether it is a meeting at the device's board: messages and chunks are none of its business,
  /// and a look whether it is over costs little.
  virtual bool meets() const { return false; }
  /// Whether `poll` has data to send that the send queue did not take.
  virtual bool blocked() const { return false; }

  /// Everything that this rank receives has come, and everything that it sends was sent: the next
  /// operation may begin while this one still serves its neighbours.
  virtual bool locally_complete() const = 0;
  virtual bool done() const = 0;
  /// The operation is over, well or not: lets go of registered memory.
  virtual void finish() {}
  virtual observe::Phase phase() const = 0;
  /// What is missing here, in words: "block 2: chunks 120-355 of 512".
  virtual std::string missing() const { return {}; }

 protected:
  virtual void start(Instant now, bool barrier) = 0;
  CommunicatorContext& context() { return *context_; }
  const CommunicatorContext& context() const { return *context_; }

 private:
  Description description_;
  std::shared_ptr<Completion> completion_;
  CommunicatorContext* context_ = nullptr;
  std::uint32_t epoch_ = 0;
  Instant started_{};
  bool begun_by_all_ = false;
};

}  // namespace tutti::engine
