// The tagged messages of one communicator at one rank: sends and receives of the application, which
// have no fixed order relative to the collectives.
//
// A short message is sent eagerly with its data. The receiving device stores the data in the buffer
// of the matching receive or, if none is posted yet, the receiver keeps a copy. The receiver READs
// a longer message from the sender's memory once a receive is posted; the sender's application need
// not take part. Each rank grants each other rank a limited room, in bytes, for eager messages. If
// no room is left, the receiver READs a short message, too. So the store of unexpected messages is
// bounded, and no message waits for another one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "device/device.hpp"
#include "engine/core/operation.hpp"
#include "engine/core/submission_queue.hpp"
#include "engine/messages/message_sender.hpp"
#include "engine/peers/closed_peers.hpp"
#include "engine/peers/failure_coordinator.hpp"
#include "engine/peers/peer_watch.hpp"
#include "engine/peers/rank_names.hpp"
#include "observe/counters.hpp"
#include "protocol/codec/tagged_message.hpp"
#include "protocol/matching/tag_matcher.hpp"
#include "tutti/status.hpp"
#include "tutti/units.hpp"

namespace tutti::engine {

/// One send or receive of the application, or the cancellation of a receive.
struct TaggedCall {
  enum class Kind : std::uint8_t { send, receive, cancel };
  Kind kind = Kind::send;
  Rank peer = kNoRank;  ///< destination of a send, or source of a receive; kNoRank: any source
  std::uint64_t tag = 0;
  std::uint64_t tag_mask = UINT64_MAX;
  std::span<std::byte> buffer{};
  Priority priority = Priority::normal;
  /// The completion of the call; for a cancellation, the completion of the cancelled receive.
  std::shared_ptr<Completion> completion{};
};

class TaggedMessages {
 public:
  /// The referenced objects must outlive this one.
  TaggedMessages(Rank me, std::uint32_t size, device::Endpoint& endpoint, MessageSender& messages,
                 PeerWatch& peers, FailureCoordinator& failures, const RankNames& names,
                 observe::Counters& counters)
      : me_(me),
        size_(size),
        endpoint_(endpoint),
        messages_(messages),
        peers_(peers),
        failures_(failures),
        names_(names),
        counters_(counters) {}

  /// Hands a call to the engine. Any thread may call this; it takes no lock.
  void submit(std::unique_ptr<TaggedCall> call) { submitted_.push(std::move(call)); }

  // Only the owner of the engine calls the functions below.

  bool has_submissions() const { return !submitted_.empty(); }
  /// Whether a send or receive is under way.
  bool waiting() const { return !calls_.empty(); }
  bool busy() const { return has_submissions() || waiting(); }
  /// Begins the submitted calls; returns true if a call began.
  bool poll(Instant now);
  /// Posts the READs that a full queue of the device has refused; an ACK may have made room since.
  void retry_reads(Instant now);
  /// MessageMatcher::match for tagged messages: finds the memory for a message that begins to
  /// arrive. The token in the result is below 2^63.
  std::optional<device::MessagePlace> match(Rank source, std::span<const std::byte> first,
                                            std::size_t bytes);
  /// Handles the complete arrival of the message to which `match` has given this token.
  void on_matched(Instant now, std::uint64_t token);
  /// Handles a tagged message (`protocol::is_tagged_message`) that the device has not matched.
  void on_message(Instant now, Rank from, std::span<const std::byte> bytes);
  /// Whether a completion with this work id is for `on_read`.
  static bool owns(std::uint64_t work_id) { return (work_id & kWorkBit) != 0; }
  void on_read(Instant now, const device::Completion& completion);
  /// An error if a call needs a rank that has closed its communicator and so never answers;
  /// otherwise ok.
  Status closed_without(const ClosedPeers& closed) const;
  /// Ends the registration of the callers' memory after a failure.
  void release_memory();
  /// Ends every call with an error that includes the text of `failed`.
  void fail_all(const Status& failed);
  /// A number that changes whenever an eager message is sent, a message arrives or a call ends.
  std::uint64_t progress() const {
    return counters_.tagged_sent_eager + counters_.tagged_expected + counters_.tagged_unexpected +
           calls_ended_;
  }

 private:
  // Bit 31 of a work id is 1 for a tagged message. It is 0 for an operation, because the lower half
  // of an operation's work ids is a small index.
  static constexpr std::uint64_t kWorkBit = std::uint64_t{1} << 31;

  using Number = std::uint32_t;  ///< number of a call or message, below 2^31
  /// A send or receive under way. When a receiver no longer needs a message, it tells the sender
  /// the number of the send.
  struct Call {
    std::unique_ptr<TaggedCall> call;
    /// Key of the sender's memory that the receiver READs; 0: no memory is registered.
    device::MemoryKey key{};
    Number message = 0;  ///< the sender's number of the message that this receive READs
  };
  /// The location of a message's bytes at this rank.
  enum class Payload : std::uint8_t {
    absent,  ///< still at its source, or dropped because the receive's buffer is too short
    in_buffer,
    in_store,
  };
  /// A message that is arriving or has arrived at this rank, or that its sender has announced.
  struct Message {
    protocol::TaggedKind kind = protocol::TaggedKind::eager;
    protocol::TagMatcher::Envelope envelope{};
    std::uint64_t bytes = 0;
    std::uint64_t key = 0;            ///< key of the message's memory at its source
    Number number = 0;                ///< number of the message at its source
    std::optional<Number> receive{};  ///< number of the receive that gets the message; empty: none
    Payload payload = Payload::absent;
    std::vector<std::byte> stored{};  ///< payload of an unexpected eager message
  };
  /// Bytes of eager messages between this rank and one peer.
  struct Room {
    std::uint64_t used = 0;       ///< bytes that this rank's eager messages occupy at the peer
    std::uint64_t to_return = 0;  ///< freed bytes that the next credit returns to the peer
    std::uint64_t stored = 0;     ///< bytes of the peer's unexpected messages at this rank
  };

  void begin(Instant now, std::unique_ptr<TaggedCall>& call);
  void begin_send(Instant now, std::unique_ptr<TaggedCall>& call);
  bool send_eagerly(Instant now, const TaggedCall& call);
  void begin_receive(Instant now, std::unique_ptr<TaggedCall>& call);
  void cancel(const Completion& receive);
  Number keep(std::unique_ptr<TaggedCall>& call);
  void send_header(Instant now, Rank to, const protocol::TaggedMessage& header);

  void find_receive(std::uint64_t token, Message& message);
  std::span<std::byte> memory_of(Message& message);
  void on_pulled(Rank from, Number number);
  void on_credit(Rank from, std::uint32_t bytes);
  void store(Message& message);
  void deliver(Instant now, Number receive, const Message& message);
  void read(Instant now, Number receive);
  void finish_message(Instant now, const Message& message);
  void return_room(Instant now, Rank to, std::uint64_t bytes);
  void end(Number number, const Status& status);
  void end_call(std::unique_ptr<TaggedCall> call, const Status& status);
  Status failed_call(const TaggedCall& call, const Status& cause) const;
  std::string describe(const TaggedCall& call) const;

  Rank me_;
  std::uint32_t size_;
  device::Endpoint& endpoint_;
  MessageSender& messages_;
  PeerWatch& peers_;
  FailureCoordinator& failures_;
  const RankNames& names_;
  observe::Counters& counters_;
  SubmissionQueue<TaggedCall> submitted_;
  protocol::TagMatcher matcher_;
  std::unordered_map<Number, Call> calls_;
  std::unordered_map<std::uint64_t, Message> arriving_;    ///< by token: messages still arriving
  std::unordered_map<std::uint64_t, Message> unexpected_;  ///< by token: messages not yet matched
  std::unordered_map<Rank, Room> rooms_;
  std::vector<Number> reads_to_post_;  ///< receives whose READ a full queue has refused
  Number next_number_ = 0;
  /// Token of the next message, which is also the message's number in the matcher.
  std::uint64_t next_message_ = 0;
  std::uint64_t calls_ended_ = 0;
};

}  // namespace tutti::engine
