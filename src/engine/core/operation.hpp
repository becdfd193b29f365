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
class Operation;
struct Arrival;
struct ReceiveView;

/// The application's view of a collective. Written by the owner of the engine, read by any thread.
struct Completion {
  std::atomic<bool> done{false};
  Status status;  ///< valid once done
  std::function<void(const Status&)>
      callback;  ///< called once, at the end, by the owner of the engine
  std::atomic<std::uint64_t> chunks_present{0};
  std::atomic<std::uint64_t> chunks_total{0};
  /// Context whose slot exchange completes this request, so that a waiter need poll only that; null
  /// if the full engine must run. Set before the operation begins.
  std::atomic<CommunicatorContext*> inline_poll_context{nullptr};
};

/// Names an operation in messages and records.
struct Description {
  const char* operation = "";  ///< "allgather"
  const char* algorithm = "";  ///< "multicast"
  Rank root = kNoRank;
  std::uint64_t bytes = 0;
};

/// Counts, or fails on, input that an operation does not handle.
class RejectionSink {
 public:
  virtual void reject_message() = 0;
  virtual void reject_chunk() = 0;
  /// Data for a slot that the operation does not have.
  virtual void reject_data(const Operation& operation, Rank from, std::uint32_t slot) = 0;

 protected:
  ~RejectionSink() = default;
};

/// Base of all collectives: the engine feeds it messages, chunks and completions, and polls it.
/// Used by the owner of the engine only.
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

  /// Payload that all ranks together multicast, which decides whether a ready barrier runs. The
  /// same on all ranks.
  virtual std::uint64_t multicast_bytes() const { return 0; }
  /// Upper bound of the message bytes that a rank may be sent before it has called this collective.
  /// The same on all ranks; larger amounts wait for a ready barrier.
  virtual std::uint64_t unexpected_bytes() const { return 0; }
  /// Whether the end of this operation proves that every rank had finished the ones before.
  virtual bool confirms_earlier() const { return false; }

  /// Whether its end here proves that every rank had begun it.
  bool begun_by_all() const { return begun_by_all_; }

  /// Chooses how to run, before `begin`; returns whether a vote rides on the ready barrier, which
  /// then has to run. The same on all ranks.
  virtual bool prepare(CommunicatorContext&) { return false; }
  /// Begins. `barrier`: the ready barrier must run before data is sent.
  void begin(Instant now, std::uint32_t epoch, bool barrier, CommunicatorContext& context,
             RejectionSink& rejections) {
    epoch_ = epoch;
    started_ = now;
    context_ = &context;
    rejections_ = &rejections;
    begun_by_all_ = barrier || confirms_earlier();
    start(now, barrier);
  }
  /// A message of this collective's protocol; rejected by default.
  virtual void on_message(Instant now, Rank from, const protocol::Message& message);
  /// A schedule's data in a message; `payload` is valid during the call.
  virtual void on_data(Instant now, Rank from, std::uint32_t slot,
                       std::span<const std::byte> payload);
  /// A schedule's data was written to the memory that this rank named.
  virtual void on_immediate(Instant now, Rank from, std::uint32_t slot);
  /// A chunk of this collective.
  virtual void on_chunk(Instant now, const device::ReceivedChunk& chunk,
                        device::MulticastQueuePair& queue_pair);
  /// Destination of a chunk, for a queue pair that places chunks itself (PlacementResolver).
  virtual device::Placement landing(const device::MessageHead& chunk, bool begins);
  /// A verified chunk that arrived before `begin`.
  virtual void on_unexpected_chunk(Instant now, std::uint32_t psn, Rank source,
                                   std::span<const std::byte> payload);
  /// How receive workers place the chunks of this collective; called once it has begun.
  virtual ReceiveView receive_view();
  /// Receive workers have placed chunks of this collective.
  virtual void on_arrivals(Instant now, const std::vector<Arrival>& arrivals);
  /// A work request of this operation has ended.
  virtual void on_completion(Instant now, const device::Completion& completion);
  /// Sends, checks timers; returns whether anything was done.
  virtual bool poll(Instant now) = 0;
  /// When `poll` must run even if nothing arrives.
  virtual Instant next_deadline() const { return kNever; }
  /// True if no rank makes progress until all ranks have sent. Ranks that share a core then yield
  /// after each send so that all start early.
  virtual bool begins_together() const { return false; }
  /// Whether it is a slot exchange, which needs no messages and chunks and is cheap to poll.
  virtual bool meets() const { return false; }
  /// Whether `poll` has data to send that the send queue did not take.
  virtual bool blocked() const { return false; }

  /// Everything that this rank receives has arrived, and everything that it sends was sent: the
  /// next operation may begin while this one still serves its neighbours.
  virtual bool locally_complete() const = 0;
  virtual bool done() const = 0;
  /// Releases registered memory when the operation ends, successfully or not.
  virtual void finish() {}
  virtual observe::Phase phase() const = 0;
  /// Describes the missing data: "block 2: chunks 120-355 of 512".
  virtual std::string missing() const { return {}; }

 protected:
  virtual void start(Instant now, bool barrier) = 0;
  CommunicatorContext& context() { return *context_; }
  const CommunicatorContext& context() const { return *context_; }

 private:
  Description description_;
  std::shared_ptr<Completion> completion_;
  CommunicatorContext* context_ = nullptr;
  RejectionSink* rejections_ = nullptr;
  std::uint32_t epoch_ = 0;
  Instant started_{};
  bool begun_by_all_ = false;
};

}  // namespace tutti::engine
