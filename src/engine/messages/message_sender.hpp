// Sends messages to other ranks over the reliable connections. If the send queue is full, a message
// is deferred, and later messages to the same rank wait behind it. So no message is lost, and
// messages to one rank keep their order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <utility>

#include "device/device.hpp"
#include "engine/messages/message_buffers.hpp"
#include "observe/counters.hpp"
#include "protocol/codec/data_message.hpp"
#include "protocol/codec/message.hpp"
#include "tutti/units.hpp"

namespace tutti::engine {

class MessageSender {
 public:
  /// `endpoint` and `counters` must outlive this object.
  MessageSender(device::Endpoint& endpoint, observe::Counters& counters)
      : endpoint_(endpoint), counters_(counters), buffers_(endpoint.max_message_bytes()) {}

  /// Sends the messages of an outbox, and empties it.
  void send(Instant now, protocol::Outbox& outbox, Priority priority = Priority::normal);
  /// Sends a schedule's data eagerly: the data is copied now, and sent as soon as the device
  /// accepts it.
  void send_data(Instant now, Rank to, std::uint32_t epoch, std::uint32_t slot,
                 std::span<const std::byte> payload, Priority priority = Priority::normal);
  /// Copies and sends a message that consists of `header` and `payload`, together at most the
  /// endpoint's `max_message_bytes`.
  void send_parts(Instant now, Rank to, std::span<const std::byte> header,
                  std::span<const std::byte> payload, Priority priority = Priority::normal);
  /// Largest payload of send_data, in bytes.
  std::size_t max_data_bytes() const {
    return endpoint_.max_message_bytes() - protocol::kDataHeaderBytes;
  }

  /// Frees the buffer of a message that the device has sent.
  void on_sent(std::uint64_t work_id) {
    if (work_id != kCopied) buffers_.give_back(work_id);
  }
  /// Returns true if a message was posted since the last call; the device must then be polled to
  /// send the message.
  bool take_posted() { return std::exchange(posted_, false); }
  bool has_deferred() const { return !deferred_.empty(); }
  void post_deferred(Instant now);
  /// Drops the deferred messages after a failure. The failure notices must not wait behind data
  /// that no operation needs any more.
  void drop_deferred();

 private:
  /// Work id of messages that the device copies when they are posted.
  static constexpr std::uint64_t kCopied = 0;

  struct Message {
    Rank to = kNoRank;
    std::uint64_t buffer = 0;
    std::size_t bytes = 0;
    Priority priority = Priority::normal;
  };

  void post_or_defer(Instant now, const Message& message);
  bool post(Instant now, const Message& message);

  device::Endpoint& endpoint_;
  observe::Counters& counters_;
  MessageBuffers buffers_;
  bool posted_ = false;
  /// By destination: messages that a full send queue refused. A rank that takes no more messages
  /// must not hold up the messages to other ranks.
  std::map<Rank, std::deque<Message>> deferred_;
};

}  // namespace tutti::engine
