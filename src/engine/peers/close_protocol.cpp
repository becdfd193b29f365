#include "engine/peers/close_protocol.hpp"

#include <algorithm>

namespace tutti::engine {

void CloseProtocol::begin(Instant now) {
  retention_.send_acks(now);
  begun_ = true;
  request_at_ = now;
  for (std::uint32_t r = 0; r < size_; ++r) {
    if (!retention_.all_at(rank_of(r))) peers_.watch(rank_of(r));
  }
  for (const Rank rank : slots_.unacked()) peers_.watch(rank);
}

std::vector<Rank> CloseProtocol::awaited() const {
  const std::vector<Rank> unacked = slots_.unacked();
  std::vector<Rank> ranks;
  for (std::uint32_t r = 0; r < size_; ++r) {
    const Rank rank = rank_of(r);
    const bool owes = std::find(unacked.begin(), unacked.end(), rank) != unacked.end();
    if (rank == me_ || closed_.contains(rank)) continue;
    if (owes || !retention_.all_at(rank)) ranks.push_back(rank);
  }
  return ranks;
}

void CloseProtocol::poll(Instant now) {
  constexpr Nanoseconds kRequestInterval{20'000'000};
  if (request_at_ > now) return;
  slots_.request_acks(now);
  request_at_ = now + kRequestInterval;
}

void CloseProtocol::announce(Instant now, std::uint32_t next_epoch) {
  protocol::Outbox outbox;
  for (std::uint32_t r = 0; r < size_; ++r) {
    if (rank_of(r) == me_) continue;
    outbox.send(rank_of(r), protocol::MessageKind::closing, slots_.acked(), next_epoch);
  }
  messages_.send(now, outbox);
  peers_.unwatch_all();
}

bool CloseProtocol::may_leave() const { return !messages_.has_deferred() && endpoint_.quiet(); }

void CloseProtocol::on_announcement(Rank from, const protocol::Message& message) {
  slots_.on_acked(from, message.epoch);
  peers_.unwatch(from);
  endpoint_.release_peer(from);
  closed_.add(from, static_cast<std::uint32_t>(message.argument));
}

Rank CloseProtocol::first_closed(std::span<const Rank> ranks) const {
  const auto closed =
      std::find_if(ranks.begin(), ranks.end(), [this](Rank rank) { return has_closed(rank); });
  return closed == ranks.end() ? kNoRank : *closed;
}

}  // namespace tutti::engine
