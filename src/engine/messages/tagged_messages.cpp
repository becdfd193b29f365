#include "engine/messages/tagged_messages.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.hpp"

namespace tutti::engine {

using protocol::TaggedKind;

namespace {

/// The eager messages of one rank may occupy at most this many bytes at each other rank. A message
/// occupies its payload bytes plus kEntryBytes.
constexpr std::uint64_t kRoomBytes = 256 * 1024;
constexpr std::uint64_t kEntryBytes = 64;
/// At most this many unexpected messages are kept. A rank that soon posts a receive for each
/// message stays far below this limit.
constexpr std::size_t kMaxUnexpected = std::size_t{1} << 20;

std::uint64_t room_of(std::uint64_t payload_bytes) { return payload_bytes + kEntryBytes; }

}  // namespace

// ---- calls --------------------------------------------------------------------------------------

bool TaggedMessages::poll(Instant now) {
  bool began = false;
  for (auto* next = submitted_.front(); next != nullptr; next = submitted_.front()) {
    begin(now, *next);
    submitted_.pop();
    began = true;
  }
  return began;
}

void TaggedMessages::retry_reads(Instant now) {
  if (reads_to_post_.empty()) return;
  for (const Number receive : std::exchange(reads_to_post_, {})) read(now, receive);
}

/// Begins the call in `call`, an entry of the submission queue. If this function throws, either the
/// entry or `calls_` owns the call, so that `fail_all` can end it.
void TaggedMessages::begin(Instant now, std::unique_ptr<TaggedCall>& call) {
  if (auto* priorities = endpoint_.priorities()) priorities->add(call->priority);
  switch (call->kind) {
    case TaggedCall::Kind::send:
      return begin_send(now, call);
    case TaggedCall::Kind::receive:
      return begin_receive(now, call);
    case TaggedCall::Kind::cancel:
      return cancel(*call->completion);
  }
}

TaggedMessages::Number TaggedMessages::keep(std::unique_ptr<TaggedCall>& call) {
  constexpr Number kNumbers = kWorkBit;
  do next_number_ = (next_number_ + 1) % kNumbers;
  while (calls_.contains(next_number_));
  calls_[next_number_].call = std::move(call);
  return next_number_;
}

void TaggedMessages::begin_send(Instant now, std::unique_ptr<TaggedCall>& call) {
  const TaggedCall& send = *call;
  if (send.peer != me_ && send_eagerly(now, send)) return end_call(std::move(call), {});
  const Number number = keep(call);
  ++counters_.tagged_sent_rendezvous;
  if (send.peer == me_) {
    const std::uint64_t token = next_message_++;
    Message& message = arriving_[token];
    message.kind = TaggedKind::ready;
    message.envelope = {me_, send.tag};
    message.bytes = send.buffer.size();
    message.number = number;
    find_receive(token, message);
    return on_matched(now, token);
  }
  if (!send.buffer.empty()) {
    const auto key = endpoint_.register_memory(send.buffer);
    if (!key) return end(number, failed_call(send, key.status()));
    calls_[number].key = *key;
  }
  peers_.watch(send.peer);
  send_header(now, send.peer,
              {.kind = TaggedKind::ready,
               .number = number,
               .tag = send.tag,
               .length_bytes = send.buffer.size(),
               .key = calls_[number].key.key});
}

/// Sends a message with its data. False if the message is too long, or if this rank's eager
/// messages would then occupy too many bytes at the receiver.
bool TaggedMessages::send_eagerly(Instant now, const TaggedCall& send) {
  const std::size_t bytes = send.buffer.size();
  if (bytes > endpoint_.max_message_bytes() - protocol::kEagerHeaderBytes) return false;
  Room& room = rooms_[send.peer];
  if (room.used + room_of(bytes) > kRoomBytes) return false;
  std::array<std::byte, protocol::kMaxTaggedHeaderBytes> header;
  const std::size_t length =
      protocol::encode_tagged({.kind = TaggedKind::eager, .tag = send.tag}, header);
  messages_.send_parts(now, send.peer, std::span(header).first(length), send.buffer, send.priority);
  room.used += room_of(bytes);
  ++counters_.tagged_sent_eager;
  counters_.tagged_bytes_copied += bytes;
  return true;
}

void TaggedMessages::begin_receive(Instant now, std::unique_ptr<TaggedCall>& call) {
  const TaggedCall& receive = *call;
  const Number number = keep(call);
  const auto message = matcher_.post(number, {receive.peer, receive.tag, receive.tag_mask});
  if (message) {
    const auto arriving = arriving_.find(*message);
    if (arriving == arriving_.end()) {
      const Message found = std::move(unexpected_.extract(*message).mapped());
      return deliver(now, number, found);
    }
    arriving->second.receive = number;  // on_matched() delivers the message once it is complete
  }
  receive.peer == kNoRank ? peers_.watch_all() : peers_.watch(receive.peer);
}

void TaggedMessages::cancel(const Completion& receive) {
  const auto found = std::find_if(calls_.begin(), calls_.end(), [&](const auto& one) {
    return one.second.call->completion.get() == &receive;
  });
  if (found == calls_.end() || !matcher_.cancel(found->first)) return;
  end(found->first, failure(Code::aborted, "{} was cancelled", describe(*found->second.call)));
}

// ---- messages -----------------------------------------------------------------------------------

void TaggedMessages::send_header(Instant now, Rank to, const protocol::TaggedMessage& header) {
  std::array<std::byte, protocol::kMaxTaggedHeaderBytes> bytes;
  const std::size_t length = protocol::encode_tagged(header, bytes);
  messages_.send_parts(now, to, std::span(bytes).first(length), {});
}

std::optional<device::MessagePlace> TaggedMessages::match(Rank source,
                                                          std::span<const std::byte> first,
                                                          std::size_t bytes) {
  const auto head = protocol::decode_tagged(first);
  if (!head) return std::nullopt;
  const bool eager = head->kind == TaggedKind::eager;
  if (!eager && head->kind != TaggedKind::ready) return std::nullopt;
  ++counters_.messages_received;
  const std::uint64_t token = next_message_++;
  Message& message = arriving_[token];
  message.kind = head->kind;
  message.envelope = {source, head->tag};
  message.bytes = eager ? bytes - protocol::kEagerHeaderBytes : head->length_bytes;
  message.key = head->key;
  message.number = head->number;
  find_receive(token, message);
  return device::MessagePlace{
      .token = token, .skip = protocol::kEagerHeaderBytes, .memory = memory_of(message)};
}

/// Assigns a message to the posted receive that matches it or, if no receive matches, to the store
/// of unexpected messages.
void TaggedMessages::find_receive(std::uint64_t token, Message& message) {
  const auto receive = matcher_.arrive(token, message.envelope);
  if (!receive) {
    ++counters_.tagged_unexpected;
    return store(message);
  }
  ++counters_.tagged_expected;
  message.receive = static_cast<Number>(*receive);
  const bool fits = message.bytes <= calls_.at(*message.receive).call->buffer.size();
  if (message.kind == TaggedKind::eager && fits) message.payload = Payload::in_buffer;
}

/// Makes room for an unexpected message in the store, or fails the communicator if the message
/// would exceed a limit.
void TaggedMessages::store(Message& message) {
  const Rank from = message.envelope.source;
  std::uint64_t& stored = rooms_[from].stored;
  const bool eager = message.kind == TaggedKind::eager;
  const std::uint64_t room = eager ? room_of(message.bytes) : 0;
  if (stored + room > kRoomBytes || matcher_.kept_messages() > kMaxUnexpected) {
    failures_.fail(
        failures_.misfit(from, Code::peer_failed,
                         "{} sent more than {} bytes or {} tagged messages for which this rank has "
                         "posted no receive: post a receive for each message",
                         names_.of(from), kRoomBytes, kMaxUnexpected));
    return;
  }
  if (!eager) return;
  message.stored.resize(message.bytes);
  message.payload = Payload::in_store;
  stored += room;
}

std::span<std::byte> TaggedMessages::memory_of(Message& message) {
  if (message.payload == Payload::in_store) return message.stored;
  if (message.payload == Payload::absent) return {};
  return calls_.at(*message.receive).call->buffer.first(message.bytes);
}

void TaggedMessages::on_matched(Instant now, std::uint64_t token) {
  const auto found = arriving_.find(token);
  if (found == arriving_.end()) return;  // the communicator has failed meanwhile
  Message message = std::move(found->second);
  arriving_.erase(found);
  if (message.receive) return deliver(now, *message.receive, message);
  unexpected_[token] = std::move(message);
}

void TaggedMessages::on_message(Instant now, Rank from, std::span<const std::byte> bytes) {
  if (const auto place = match(from, bytes, bytes.size())) {
    place->store(0, bytes);
    counters_.tagged_bytes_copied += place->memory.size();
    return on_matched(now, place->token);
  }
  ++counters_.messages_received;
  const auto decoded = protocol::decode_tagged(bytes);
  if (decoded && decoded->kind == TaggedKind::pulled) return on_pulled(from, decoded->number);
  if (decoded && decoded->kind == TaggedKind::credit) return on_credit(from, decoded->number);
  ++counters_.messages_rejected;
}

void TaggedMessages::on_pulled(Rank from, Number number) {
  const auto found = calls_.find(number);
  const bool sent = found != calls_.end() && found->second.call->peer == from &&
                    found->second.call->kind == TaggedCall::Kind::send;
  if (sent) return end(number, {});
  ++counters_.messages_rejected;
}

void TaggedMessages::on_credit(Rank from, std::uint32_t bytes) {
  Room& room = rooms_[from];
  if (bytes > room.used) {
    ++counters_.messages_rejected;
    return;
  }
  room.used -= bytes;
}

/// Delivers a message to its posted receive.
void TaggedMessages::deliver(Instant now, Number receive, const Message& message) {
  Call& into = calls_.at(receive);
  const TaggedCall& call = *into.call;
  call.completion->message = {message.envelope.source, message.envelope.tag, message.bytes};
  const bool stored = message.payload == Payload::in_store;
  if (stored) rooms_[message.envelope.source].stored -= room_of(message.bytes);
  if (message.bytes > call.buffer.size()) {
    finish_message(now, message);
    return end(receive,
               failure_of(names_.in_job({message.envelope.source, me_}), Code::invalid_argument,
                          "the {} matched a message of {} bytes from {}, which is longer than its "
                          "buffer: post the receive with a buffer for the longest message",
                          describe(call), message.bytes, names_.of(message.envelope.source)));
  }
  const bool own = message.envelope.source == me_;
  if (message.kind == TaggedKind::ready && !own && message.bytes > 0) {
    into.message = message.number;
    into.key = {message.key};
    peers_.watch(message.envelope.source);
    return read(now, receive);
  }
  if (own || stored) {
    const std::span<const std::byte> payload =
        own ? std::span<const std::byte>(calls_.at(message.number).call->buffer) : message.stored;
    std::copy(payload.begin(), payload.end(), call.buffer.begin());
    counters_.tagged_bytes_copied += message.bytes;
  }
  finish_message(now, message);
  end(receive, {});
}

/// READs a message from the sender's memory into the buffer of `receive`.
void TaggedMessages::read(Instant now, Number receive) {
  const Call& into = calls_.at(receive);
  const MessageInfo& message = into.call->completion->message;
  const Status posted = endpoint_.post(now, {.opcode = device::Opcode::read,
                                             .peer = message.source,
                                             .work_id = kWorkBit | receive,
                                             .local = into.call->buffer.first(message.bytes),
                                             .remote_key = into.key,
                                             .priority = into.call->priority});
  if (posted.code() == Code::resource_exhausted) return reads_to_post_.push_back(receive);
  // Code::peer_failed is not handled, because a completion also reports the loss of the peer and
  // fails the communicator.
  if (!posted && posted.code() != Code::peer_failed)
    failures_.fail(failed_call(*into.call, posted));
}

void TaggedMessages::on_read(Instant now, const device::Completion& completion) {
  const auto number = static_cast<Number>(completion.work_id & ~kWorkBit);
  const auto found = calls_.find(number);
  if (found == calls_.end()) return;
  const Rank source = found->second.call->completion->message.source;
  if (completion.code != Code::ok) {
    return failures_.fail(failures_.misfit(
        source, Code::peer_failed,
        "{0} announced a message, but then refused this rank's READ of it: see the error of {0}",
        names_.of(source)));
  }
  send_header(now, source, {.kind = TaggedKind::pulled, .number = found->second.message});
  end(number, {});
}

/// Tells the source of a message that this rank no longer needs the message.
void TaggedMessages::finish_message(Instant now, const Message& message) {
  const Rank source = message.envelope.source;
  if (message.kind == TaggedKind::eager) return return_room(now, source, room_of(message.bytes));
  if (source == me_) return end(message.number, {});
  send_header(now, source, {.kind = TaggedKind::pulled, .number = message.number});
}

void TaggedMessages::return_room(Instant now, Rank to, std::uint64_t bytes) {
  Room& room = rooms_[to];
  room.to_return += bytes;
  if (room.to_return < kRoomBytes / 2) return;
  send_header(now, to,
              {.kind = TaggedKind::credit, .number = static_cast<std::uint32_t>(room.to_return)});
  room.to_return = 0;
}

// ---- ends ---------------------------------------------------------------------------------------

void TaggedMessages::end(Number number, const Status& status) {
  const auto found = calls_.find(number);
  const bool registered =
      found->second.call->kind == TaggedCall::Kind::send && found->second.key.key != 0;
  if (registered) endpoint_.deregister_memory(found->second.key);
  std::unique_ptr<TaggedCall> call = std::move(found->second.call);
  calls_.erase(found);
  end_call(std::move(call), status);
}

void TaggedMessages::end_call(std::unique_ptr<TaggedCall> call, const Status& status) {
  ++calls_ended_;
  call->completion->end(status);
}

Status TaggedMessages::closed_without(const ClosedPeers& closed) const {
  for (const auto& [number, one] : calls_) {
    const TaggedCall& call = *one.call;
    const bool any_source = call.peer == kNoRank;
    // A receive from any source can still get a message as long as one other rank has not closed.
    if (any_source ? closed.count() + 1 < size_ : !closed.contains(call.peer)) continue;
    return failure_of(
        any_source ? std::vector<Rank>() : names_.in_job({call.peer}), Code::peer_failed,
        "{} can never end, because {} closed the communicator: send a message for "
        "each receive, and receive each message, before closing",
        describe(call), any_source ? "all other ranks have" : names_.of(call.peer) + " has");
  }
  return {};
}

void TaggedMessages::release_memory() {
  for (auto& [number, call] : calls_) {
    if (call.call->kind != TaggedCall::Kind::send || call.key.key == 0) continue;
    endpoint_.deregister_memory(std::exchange(call.key, {}));
  }
}

void TaggedMessages::fail_all(const Status& failed) {
  arriving_.clear();
  while (!calls_.empty()) {
    const auto first = calls_.begin();
    end(first->first, failed_call(*first->second.call, failed));
  }
  for (auto* next = submitted_.front(); next != nullptr; next = submitted_.front()) {
    // An entry is null if `begin` threw after it had moved the entry's call to `calls_`.
    if (*next && (*next)->kind != TaggedCall::Kind::cancel) {
      const Status status = failed_call(**next, failed);
      end_call(std::move(*next), status);
    }
    submitted_.pop();
  }
}

Status TaggedMessages::failed_call(const TaggedCall& call, const Status& cause) const {
  return failure_from(cause, "{}: {}", describe(call), cause.message());
}

std::string TaggedMessages::describe(const TaggedCall& call) const {
  const bool sends = call.kind == TaggedCall::Kind::send;
  return fmt::format("{} of {} bytes {} {} with tag {} at {}", sends ? "send" : "receive",
                     call.buffer.size(), sends ? "to" : "from",
                     call.peer == kNoRank ? "any rank" : names_.of(call.peer), call.tag,
                     names_.of(me_));
}

}  // namespace tutti::engine
