#include "engine/messages/message_sender.hpp"

#include <array>
#include <cstring>
#include <iterator>

namespace tutti::engine {

void MessageSender::send(Instant now, protocol::Outbox& outbox, Priority priority) {
  for (const protocol::Outbox::Item& item : outbox.items()) {
    ++counters_.messages_sent;
    const std::size_t buffer = buffers_.take();
    const std::size_t bytes = protocol::encode(item.message, buffers_[buffer].data());
    post_or_defer(now, {item.to, buffer, bytes, priority});
  }
  outbox.clear();
}

void MessageSender::send_data(Instant now, Rank to, std::uint32_t epoch, std::uint32_t slot,
                              std::span<const std::byte> payload, Priority priority) {
  std::array<std::byte, protocol::kDataHeaderBytes> header;
  protocol::encode_data_header(epoch, slot, header.data());
  send_parts(now, to, header, payload, priority);
}

void MessageSender::send_parts(Instant now, Rank to, std::span<const std::byte> header,
                               std::span<const std::byte> payload, Priority priority) {
  ++counters_.messages_sent;
  const Message message{to, buffers_.take(), header.size() + payload.size(), priority};
  std::byte* const bytes = buffers_[message.buffer].data();
  std::memcpy(bytes, header.data(), header.size());
  if (!payload.empty()) std::memcpy(bytes + header.size(), payload.data(), payload.size());
  post_or_defer(now, message);
}

void MessageSender::post_or_defer(Instant now, const Message& message) {
  if (deferred_.contains(message.to) || !post(now, message)) {
    deferred_[message.to].push_back(message);
  }
}

void MessageSender::post_deferred(Instant now) {
  for (auto at = deferred_.begin(); at != deferred_.end();) {
    std::deque<Message>& waiting = at->second;
    while (!waiting.empty() && post(now, waiting.front())) waiting.pop_front();
    at = waiting.empty() ? deferred_.erase(at) : std::next(at);
  }
}

/// Posts a message; false if the send queue is full. A message to a lost peer is dropped, and a
/// completion reports the loss.
bool MessageSender::post(Instant now, const Message& message) {
  // The device copies messages of up to kMaxMessageBytes when they are posted.
  const bool copied = message.bytes <= protocol::kMaxMessageBytes;
  const Status posted = endpoint_.post(now, {.opcode = device::Opcode::send,
                                             .peer = message.to,
                                             .work_id = copied ? kCopied : message.buffer,
                                             .local = buffers_[message.buffer].first(message.bytes),
                                             .signaled = !copied,
                                             .priority = message.priority});
  if (posted.code() == Code::resource_exhausted) return false;
  posted_ = true;
  if (copied || !posted.ok()) buffers_.give_back(message.buffer);
  return true;
}

void MessageSender::drop_deferred() {
  for (const auto& [to, waiting] : deferred_) {
    for (const Message& one : waiting) buffers_.give_back(one.buffer);
  }
  deferred_.clear();
}

}  // namespace tutti::engine
