#include "engine/core/retained_blocks.hpp"

#include <algorithm>
#include <utility>

#include "base/circular.hpp"

namespace tutti::engine {

namespace {

constexpr std::size_t kMaxQuestions = 4096;
// Storage beyond this is freed; the blocks of a loop of short Broadcasts fit.
constexpr std::size_t kMaxFree = 64;

}  // namespace

using protocol::MessageKind;

void RetainedBlocks::keep(Instant now, std::uint32_t epoch, std::span<const std::byte> block) {
  Kept& kept = kept_.emplace_back();
  kept.epoch = epoch;
  if (!free_.empty()) {
    kept.block = std::move(free_.back());
    free_.pop_back();
  }
  kept.block.assign(block.begin(), block.end());
  for (Question& one : questions_) {
    if (one.request.epoch == epoch) one.due = now + grace_;
  }
}

std::size_t RetainedBlocks::place_of(std::uint32_t epoch) const {
  const auto at = std::lower_bound(
      kept_.begin(), kept_.end(), epoch,
      [](const Kept& one, std::uint32_t wanted) { return circular_before(one.epoch, wanted); });
  if (at == kept_.end() || at->epoch != epoch) return kept_.size();
  return static_cast<std::size_t>(at - kept_.begin());
}

bool RetainedBlocks::ask(Rank from, const protocol::Message& request, protocol::Outbox& outbox) {
  if (holds(request.epoch)) {
    answer({from, request}, outbox);
    return true;
  }
  if (questions_.size() == kMaxQuestions) return false;
  questions_.push_back({from, request});
  return true;
}

void RetainedBlocks::answer(const Question& question, protocol::Outbox& outbox) {
  protocol::Message reply = question.request;
  reply.kind = MessageKind::fetch_expired;
  if (const std::size_t place = place_of(question.request.epoch); place < kept_.size()) {
    Kept& kept = kept_[place];
    if (!kept.registered) {
      auto key = endpoint_.register_memory(kept.block);
      kept.registered = key.ok();
      if (key) kept.key = *key;
    }
    if (kept.registered) reply.kind = MessageKind::fetch_ready;
    reply.argument = kept.key.key;
  }
  outbox.send(question.from, reply);
}

std::uint64_t RetainedBlocks::serve(Instant now, const protocol::DeliveryAcks& receipts,
                                    protocol::Outbox& outbox) {
  std::uint64_t served = 0;
  std::erase_if(questions_, [&](const Question& one) {
    if (receipts.has(one.from, one.request.epoch)) return true;
    if (one.due > now) return false;
    answer(one, outbox);
    served += one.request.range_count;
    return true;
  });
  return served;
}

Instant RetainedBlocks::next_deadline() const {
  Instant deadline = kNever;
  for (const Question& one : questions_) deadline = std::min(deadline, one.due);
  return deadline;
}

void RetainedBlocks::release(const protocol::DeliveryAcks& receipts) {
  while (!kept_.empty() && receipts.all_but(me_, kept_.front().epoch)) {
    Kept& kept = kept_.front();
    if (kept.registered) endpoint_.deregister_memory(kept.key);
    if (free_.size() < kMaxFree) free_.push_back(std::move(kept.block));
    kept_.pop_front();
  }
}

}  // namespace tutti::engine
