#include "engine/core/retention.hpp"

namespace tutti::engine {

Retention::Retention(Rank me, std::uint32_t size, const Settings& settings,
                     device::Endpoint& endpoint, MessageSender& messages, NetworkEstimates& network,
                     observe::Counters& counters)
    : size_(size),
      max_bytes_(std::min(settings.retain_bytes, settings.window_bytes / 2)),
      messages_(messages),
      network_(network),
      counters_(counters),
      acks_(size, settings.first_epoch, settings.ack_delay),
      blocks_(me, endpoint, 2 * settings.ack_delay) {}

bool Retention::covers(std::uint64_t broadcast_bytes) const {
  // Roots retain blocks only in communicators of at most this many ranks. Every receiver sends its
  // delivery ACKs directly to the root, so the ACKs of more receivers would overload the root.
  constexpr std::uint32_t kMaxReceivers = 64;
  return broadcast_bytes <= max_bytes_ && size_ > 1 && size_ <= kMaxReceivers;
}

void Retention::send_acks(Instant now) {
  counters_.delivery_acks_sent += acks_.send(outbox_);
  messages_.send(now, outbox_);
}

void Retention::keep(Instant now, std::uint32_t epoch, std::span<const std::byte> block) {
  blocks_.keep(now, epoch, block);
  ++counters_.blocks_retained;
  // All ACKs may have arrived before the last chunk left this host. The copy is then not needed and
  // is released here.
  blocks_.release(acks_);
}

void Retention::answer(Instant now, Rank from, const protocol::Message& request) {
  if (blocks_.holds(request.epoch)) counters_.retained_ranges_served += request.range_count;
  if (!blocks_.ask(from, request, outbox_)) ++counters_.messages_rejected;
  messages_.send(now, outbox_);
}

void Retention::answer_late(Instant now, Rank from, const protocol::Message& request) {
  if (blocks_.holds(request.epoch)) {
    network_.observe_loss(true);
    return answer(now, from, request);
  }
  protocol::Message reply = request;
  reply.kind = protocol::MessageKind::fetch_expired;
  outbox_.send(from, reply);
  messages_.send(now, outbox_);
}

void Retention::on_ack(Rank from, std::uint32_t epoch) {
  acks_.on_ack(from, epoch);
  blocks_.release(acks_);
}

void Retention::begun_by_all(std::uint32_t epoch) {
  acks_.begun_by_all(epoch);
  blocks_.release(acks_);
}

void Retention::serve(Instant now) {
  if (acks_.due() <= now) counters_.delivery_acks_sent += acks_.send(outbox_);
  if (blocks_.next_deadline() <= now)
    counters_.retained_ranges_served += blocks_.serve(now, acks_, outbox_);
  if (!outbox_.empty()) messages_.send(now, outbox_);
}

}  // namespace tutti::engine
