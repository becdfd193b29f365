// One collective in flight at one rank, as the engine sees it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "device/device.hpp"
#include "observe/counters.hpp"
#include "observe/flight_recorder.hpp"
#include "protocol/codec/message.hpp"
#include "tutti/message.hpp"
#include "tutti/priority.hpp"
#include "tutti/status.hpp"
#include "tutti/units.hpp"

namespace tutti::engine {

class CommunicatorContext;
class Operation;
struct Arrival;
struct ReceiveView;

/// The state of a collective as the application sees it. The owner of the engine writes the state,
/// and any thread may read it.
struct Completion {
  std::atomic<bool> done{false};
  Status status;        ///< result of the collective; valid once `done` is true
  MessageInfo message;  ///< tagged message that the call has received; valid once `done` is true
  std::function<void(const Status&)>
      callback;  ///< function that the owner of the engine calls once, at the end
  std::atomic<std::uint64_t> chunks_present{0};
  std::atomic<std::uint64_t> chunks_total{0};
  /// The context whose slot exchange completes this request, so that a waiting thread needs to poll
  /// only that exchange. Null if the full engine must run; set before the operation begins.
  std::atomic<CommunicatorContext*> inline_poll_context{nullptr};
  /// A second completion, which `end` also marks as done: several calls share it, so that a thread
  /// can wait until one of them has ended. Only the owner of the engine uses the pointer.
  Completion* any_of = nullptr;

  /// Ends the collective; only the owner of the engine calls this.
  void end(const Status& result);
};

/// The name and arguments of an operation in error texts and records.
struct Description {
  const char* operation = "";  ///< name of the collective, such as "allgather"
  const char* algorithm = "";  ///< name of the algorithm, such as "multicast"
  Rank root = kNoRank;
  std::uint64_t bytes = 0;
};

/// The data that a rank still waits for.
struct Missing {
  std::string text{};      ///< the missing data in words, such as "rank 2's chunks 120-355 of 512"
  std::set<Rank> ranks{};  ///< ranks from which the data must come, as far as this rank knows
};

/// Handles input that an operation does not accept: counts it, or fails the communicator.
class RejectionSink {
 public:
  virtual void reject_message(Rank from, const protocol::Message& message) = 0;
  /// Rejects an intact chunk of `bytes` bytes for a collective that multicasts nothing.
  virtual void reject_chunk(Rank source, std::size_t bytes) = 0;
  /// Rejects data for a match slot that the operation does not have.
  virtual void reject_data(const Operation& operation, Rank from, std::uint32_t slot) = 0;

 protected:
  ~RejectionSink() = default;
};

/// Base of all operations. The owner of the engine hands messages, chunks and completions to an
/// operation and polls it; no other thread uses an operation.
class Operation {
 public:
  explicit Operation(Description description)
      : description_(description), completion_(std::make_shared<Completion>()) {}
  virtual ~Operation() = default;
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  const Description& description() const { return description_; }
  const std::shared_ptr<Completion>& completion() const { return completion_; }
  /// The priority of all messages and data that this operation sends; set before `begin`.
  Priority priority() const { return priority_; }
  void set_priority(Priority priority) { priority_ = priority; }
  std::uint32_t epoch() const { return epoch_; }
  Instant started() const { return started_; }

  /// The bytes that a late rank needs to store all chunks of this operation; they decide whether a
  /// ready barrier runs. Valid after `prepare`, the same on all ranks; 0: it multicasts nothing.
  virtual std::uint64_t late_store_bytes() const { return 0; }
  /// Other ranks send at most this many message bytes to a rank before that rank calls this
  /// collective; the same on all ranks. If a rank might have to store too many bytes, a ready
  /// barrier runs first.
  virtual std::uint64_t unexpected_bytes() const { return 0; }
  /// True if the end of this operation proves that every rank had finished all earlier operations.
  virtual bool confirms_earlier() const { return false; }

  /// True if the end of this operation at this rank proves that every rank had begun it.
  bool begun_by_all() const { return begun_by_all_; }

  /// Called before `begin`: chooses how the operation runs. Returns true if the ready barrier must
  /// run because it carries a rate vote; the result must be the same on all ranks.
  virtual bool prepare(CommunicatorContext&) { return false; }
  /// Begins the operation. `barrier`: true if the ready barrier must run before data is sent.
  void begin(Instant now, std::uint32_t epoch, bool barrier, CommunicatorContext& context,
             RejectionSink& rejections) {
    epoch_ = epoch;
    started_ = now;
    context_ = &context;
    rejections_ = &rejections;
    begun_by_all_ = barrier || confirms_earlier();
    try {
      start(now, barrier);
    } catch (...) {
      finish();
      throw;
    }
  }
  /// Handles a message of this collective's protocol; rejects it by default.
  virtual void on_message(Instant now, Rank from, const protocol::Message& message);
  /// Handles a message that carries data of a schedule; `payload` is valid only during the call.
  virtual void on_data(Instant now, Rank from, std::uint32_t slot,
                       std::span<const std::byte> payload);
  /// Returns the destination of a data message that begins to arrive; nothing if the message must
  /// be delivered by `on_data`. The memory must stay valid until `on_placed`, or until a failure.
  virtual std::optional<std::span<std::byte>> place_of(Rank from, std::uint32_t slot,
                                                       std::size_t payload_bytes);
  /// Handles the arrival of a data message at its destination.
  virtual void on_placed(Instant now, Rank from, std::uint32_t slot);
  /// Handles an immediate, by which a peer says that it has written data of this operation to this
  /// rank's memory.
  virtual void on_immediate(Instant now, Rank from, std::uint32_t slot);
  /// Handles a chunk of this collective; rejects it by default if it is intact.
  virtual void on_chunk(Instant now, const device::ReceivedChunk& chunk,
                        device::MulticastQueuePair& queue_pair);
  /// Returns the destination of a chunk, for a queue pair that places chunks itself
  /// (PlacementResolver).
  virtual device::Placement landing(const device::MessageHead& chunk, bool begins);
  /// Handles a verified chunk that arrived before `begin`.
  virtual void on_unexpected_chunk(Instant now, std::uint32_t psn, Rank source,
                                   std::span<const std::byte> payload);
  /// Returns the view by which receive workers place the chunks of this collective; called after
  /// `begin`.
  virtual ReceiveView receive_view();
  /// Handles the arrivals that receive workers report; ignores those of other collectives.
  virtual void on_arrivals(Instant now, const std::vector<Arrival>& arrivals);
  /// Handles the end of a work request of this operation.
  virtual void on_completion(Instant now, const device::Completion& completion);
  /// Sends data and checks timers; returns true if anything was done.
  virtual bool poll(Instant now) = 0;
  /// The time at which `poll` must run even if nothing arrives.
  virtual Instant next_deadline() const { return kNever; }
  /// True if no rank can make progress before all ranks have sent. Ranks that share a core then
  /// yield after each send, so that every rank starts early.
  virtual bool begins_together() const { return false; }
  /// True for a slot exchange, which is cheap to poll and needs no messages unless entries are lost
  /// or late.
  virtual bool meets() const { return false; }
  /// True if `poll` still has data to send that a full send queue refused.
  virtual bool blocked() const { return false; }

  /// True if this rank has received all its data and sent all its data. The next operation may then
  /// begin while this one still serves the neighbours.
  virtual bool locally_complete() const = 0;
  virtual bool done() const = 0;
  /// Releases registered memory when the operation ends, successfully or not, or if `start` throws.
  virtual void finish() {}
  virtual observe::Phase phase() const = 0;
  /// The data that this rank still waits for.
  virtual Missing missing() const { return {}; }

 protected:
  virtual void start(Instant now, bool barrier) = 0;
  CommunicatorContext& context() { return *context_; }
  const CommunicatorContext& context() const { return *context_; }

 private:
  Description description_;
  std::shared_ptr<Completion> completion_;
  CommunicatorContext* context_ = nullptr;
  RejectionSink* rejections_ = nullptr;
  Priority priority_ = Priority::normal;
  std::uint32_t epoch_ = 0;
  Instant started_{};
  bool begun_by_all_ = false;
};

}  // namespace tutti::engine
