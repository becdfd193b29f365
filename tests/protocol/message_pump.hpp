// Carries messages between the protocol state machines of many ranks, all in one thread. Messages
// from one rank to another keep their order, as on a reliable connection. Messages of different
// pairs arrive in an order drawn from a seed.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/random.hpp"
#include "protocol/codec/message.hpp"
#include "tutti/units.hpp"

namespace tutti::protocol {

class MessagePump {
 public:
  struct Delivery {
    Rank from = kNoRank;
    Rank to = kNoRank;
    Message message;
  };

  explicit MessagePump(std::uint64_t seed) : random_(seed) {}

  /// Collects the messages that a rank sends.
  void collect(Rank from, Outbox& outbox) {
    for (const Outbox::Item& item : outbox.items()) {
      queues_[{from, item.to}].push_back(item.message);
      ++sent_[item.message.kind];
      ++pending_;
    }
    outbox.clear();
  }
  /// The oldest message under way between a randomly chosen pair of ranks; empty if there is no
  /// message.
  std::optional<Delivery> next() {
    if (pending_ == 0) return std::nullopt;
    std::vector<std::pair<Rank, Rank>> ready;
    for (const auto& [ends, queue] : queues_) {
      if (!queue.empty()) ready.push_back(ends);
    }
    const auto ends = ready[random_.below(ready.size())];
    std::deque<Message>& queue = queues_[ends];
    Delivery delivery{ends.first, ends.second, queue.front()};
    queue.pop_front();
    --pending_;
    return delivery;
  }
  std::uint64_t sent(MessageKind kind) const {
    const auto at = sent_.find(kind);
    return at == sent_.end() ? 0 : at->second;
  }
  bool empty() const { return pending_ == 0; }
  Random& random() { return random_; }

 private:
  Random random_;
  std::map<std::pair<Rank, Rank>, std::deque<Message>> queues_;
  std::map<MessageKind, std::uint64_t> sent_;
  std::size_t pending_ = 0;
};

}  // namespace tutti::protocol
