#include "engine/core/retained_blocks.hpp"

#include <algorithm>
#include <utility>

#include "base/circular.hpp"

namespace tutti::engine {

namespace {

constexpr std::size_t kMaxRequests = 4096;
// The storage of at most this many released blocks is kept for reuse, enough for a loop of short
// Broadcasts.
constexpr std::size_t kMaxFree = 64;

}  // namespace

using protocol::MessageKind;

void RetainedBlocks::keep(Instant now, std::uint32_t epoch, std::span<const std::byte> block) {
  Block& retained = blocks_.emplace_back();
  retained.epoch = epoch;
  if (!free_.empty()) {
    retained.bytes = std::move(free_.back());
    free_.pop_back();
  }
  retained.bytes.assign(block.begin(), block.end());
  for (Request& one : requests_) {
    if (one.message.epoch == epoch) one.due = now + grace_;
  }
}

std::size_t RetainedBlocks::index_of(std::uint32_t epoch) const {
  const auto at = std::lower_bound(
      blocks_.begin(), blocks_.end(), epoch,
      [](const Block& one, std::uint32_t wanted) { return circular_before(one.epoch, wanted); });
  if (at == blocks_.end() || at->epoch != epoch) return blocks_.size();
  return static_cast<std::size_t>(at - blocks_.begin());
}

bool RetainedBlocks::ask(Rank from, const protocol::Message& request, protocol::Outbox& outbox) {
  if (holds(request.epoch)) {
    answer({from, request}, outbox);
    return true;
  }
  if (requests_.size() == kMaxRequests) return false;
  requests_.push_back({from, request});
  return true;
}

void RetainedBlocks::answer(const Request& request, protocol::Outbox& outbox) {
  protocol::Message reply = request.message;
  reply.kind = MessageKind::fetch_expired;
  if (const std::size_t at = index_of(request.message.epoch); at < blocks_.size()) {
    Block& block = blocks_[at];
    if (!block.registered) {
      auto key = endpoint_.register_memory(block.bytes);
      block.registered = key.ok();
      if (key) block.key = *key;
    }
    if (block.registered) reply.kind = MessageKind::fetch_ready;
    reply.argument = block.key.key;
  }
  outbox.send(request.from, reply);
}

std::uint64_t RetainedBlocks::serve(Instant now, const protocol::DeliveryAcks& acks,
                                    protocol::Outbox& outbox) {
  std::uint64_t served = 0;
  std::erase_if(requests_, [&](const Request& one) {
    if (acks.has(one.from, one.message.epoch)) return true;
    if (one.due > now) return false;
    answer(one, outbox);
    served += one.message.range_count;
    return true;
  });
  return served;
}

Instant RetainedBlocks::next_deadline() const {
  Instant deadline = kNever;
  for (const Request& one : requests_) deadline = std::min(deadline, one.due);
  return deadline;
}

void RetainedBlocks::release(const protocol::DeliveryAcks& acks) {
  while (!blocks_.empty() && acks.all_but(me_, blocks_.front().epoch)) {
    Block& block = blocks_.front();
    if (block.registered) endpoint_.deregister_memory(block.key);
    if (free_.size() < kMaxFree) free_.push_back(std::move(block.bytes));
    blocks_.pop_front();
  }
}

}  // namespace tutti::engine
