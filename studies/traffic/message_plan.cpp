#include "studies/traffic/message_plan.hpp"

#include <algorithm>
#include <bit>

namespace tutti::sim {
namespace {

constexpr MessageIndex kNoMessage = 0xffff'ffffu;

/// The size of part number `at` if `bytes` bytes are cut into `parts` parts whose sizes differ by
/// at most one byte.
std::uint64_t part_bytes(std::uint64_t bytes, std::uint64_t at, std::uint64_t parts) {
  return (at + 1) * bytes / parts - at * bytes / parts;
}
std::uint64_t parts_bytes(std::uint64_t bytes, std::uint64_t first, std::uint64_t count,
                          std::uint64_t parts) {
  return (first + count) * bytes / parts - first * bytes / parts;
}

struct Edge {
  std::uint32_t parent;
  std::uint32_t child;
};

/// Makes a plan that sends segments down a tree. In `edges`, the edge to a node must precede the
/// edges to the children of the node, and a node sends to its children in the order of their edges.
MessagePlan down_a_tree(std::uint32_t ranks, std::uint64_t bytes, std::uint32_t segments,
                        const std::vector<Edge>& edges) {
  MessagePlan plan(ranks);
  std::vector<MessageIndex> came_by(ranks);
  for (std::uint32_t s = 0; s < segments; ++s) {
    came_by.assign(ranks, kNoMessage);
    for (const Edge& edge : edges) {
      const MessageIndex need = came_by[edge.parent];
      const std::span<const MessageIndex> needs(&need, need == kNoMessage ? 0 : 1);
      const Message message{edge.parent, edge.child, part_bytes(bytes, s, segments)};
      came_by[edge.child] = plan.add(message, needs);
    }
  }
  return plan;
}

/// Adds messages to a plan in rounds. Each message needs all messages that its sender has received
/// in earlier rounds.
class AllReceived {
 public:
  explicit AllReceived(MessagePlan& plan) : plan_(plan), received_(plan.ranks()) {}
  void add(const Message& message) { pending_.push_back(message); }
  /// Ends a round: adds its messages to the plan, so that messages of later rounds need them.
  void end_round() {
    std::vector<MessageIndex> added;
    for (const Message& message : pending_) {
      added.push_back(plan_.add(message, received_[message.from]));
    }
    for (std::size_t i = 0; i < pending_.size(); ++i) {
      received_[pending_[i].to].push_back(added[i]);
    }
    pending_.clear();
  }

 private:
  MessagePlan& plan_;
  std::vector<std::vector<MessageIndex>> received_;
  std::vector<Message> pending_;
};

}  // namespace

MessageIndex MessagePlan::add(const Message& message, std::span<const MessageIndex> needs) {
  messages_.push_back(message);
  needs_.insert(needs_.end(), needs.begin(), needs.end());
  first_needs_.push_back(static_cast<std::uint32_t>(needs_.size()));
  return static_cast<MessageIndex>(messages_.size() - 1);
}

MessagePlan plan_broadcast_k_nomial(std::uint32_t ranks, std::uint64_t bytes, std::uint32_t radix) {
  std::vector<Edge> edges;
  std::uint64_t width = 1;
  while (width < ranks) width *= radix;
  for (width /= radix; width >= 1; width /= radix) {
    for (std::uint64_t parent = 0; parent < ranks; parent += width * radix) {
      for (std::uint32_t j = 1; j < radix && parent + j * width < ranks; ++j) {
        edges.push_back(
            {static_cast<std::uint32_t>(parent), static_cast<std::uint32_t>(parent + j * width)});
      }
    }
  }
  return down_a_tree(ranks, bytes, 1, edges);
}

MessagePlan plan_broadcast_binary_heap(std::uint32_t ranks, std::uint64_t bytes,
                                       std::uint32_t segments) {
  std::vector<Edge> edges;
  for (std::uint32_t child = 1; child < ranks; ++child) edges.push_back({(child - 1) / 2, child});
  return down_a_tree(ranks, bytes, segments, edges);
}

MessagePlan plan_broadcast_binary_in_order(std::uint32_t ranks, std::uint64_t bytes,
                                           std::uint32_t segments) {
  struct Run {
    std::uint32_t first;
    std::uint32_t last;
    std::uint32_t parent;
  };
  std::vector<Edge> edges;
  std::vector<Run> runs;
  if (ranks > 1) runs.push_back({1, ranks - 1, 0});
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const Run run = runs[i];
    const std::uint32_t middle = (run.first + run.last) / 2;
    edges.push_back({run.parent, middle});
    if (run.first < middle) runs.push_back({run.first, middle - 1, middle});
    if (middle < run.last) runs.push_back({middle + 1, run.last, middle});
  }
  return down_a_tree(ranks, bytes, segments, edges);
}

MessagePlan plan_broadcast_chain(std::uint32_t ranks, std::uint64_t bytes, std::uint32_t segments) {
  std::vector<Edge> edges;
  for (std::uint32_t child = 1; child < ranks; ++child) edges.push_back({child - 1, child});
  return down_a_tree(ranks, bytes, segments, edges);
}

MessagePlan plan_broadcast_linear(std::uint32_t ranks, std::uint64_t bytes) {
  std::vector<Edge> edges;
  for (std::uint32_t child = 1; child < ranks; ++child) edges.push_back({0, child});
  return down_a_tree(ranks, bytes, 1, edges);
}

MessagePlan plan_broadcast_scatter_ring(std::uint32_t ranks, std::uint64_t bytes) {
  MessagePlan plan(ranks);
  std::vector<MessageIndex> came_by(ranks, kNoMessage);
  const auto needs_of = [&](std::uint32_t rank) {
    return std::span<const MessageIndex>(&came_by[rank], came_by[rank] == kNoMessage ? 0 : 1);
  };
  for (std::uint32_t width = std::bit_ceil(ranks) / 2; width >= 1; width /= 2) {
    for (std::uint32_t rank = 0; rank + width < ranks; rank += 2 * width) {
      const std::uint32_t child = rank + width;
      const std::uint32_t count = std::min(width, ranks - child);
      const Message message{rank, child, parts_bytes(bytes, child, count, ranks)};
      came_by[child] = plan.add(message, needs_of(rank));
    }
  }
  for (std::uint32_t step = 0; ranks > 1 && step + 1 < ranks; ++step) {
    std::vector<MessageIndex> came_now(ranks);
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      const std::uint32_t part = (rank + ranks - step) % ranks;
      const Message message{rank, (rank + 1) % ranks, part_bytes(bytes, part, ranks)};
      came_now[(rank + 1) % ranks] = plan.add(message, needs_of(rank));
    }
    came_by = std::move(came_now);
  }
  return plan;
}

MessagePlan plan_broadcast_multicast(std::uint32_t ranks, std::uint64_t bytes) {
  MessagePlan plan(ranks);
  plan.add({0, kAllRanks, bytes});
  return plan;
}

MessagePlan plan_allgather_ring(std::uint32_t ranks, std::uint64_t bytes) {
  MessagePlan plan(ranks);
  for (std::uint32_t step = 0; step + 1 < ranks; ++step) {
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      const MessageIndex from_left = (step - 1) * ranks + (rank + ranks - 1) % ranks;
      const std::span<const MessageIndex> needs(&from_left, step == 0 ? 0 : 1);
      plan.add({rank, (rank + 1) % ranks, bytes}, needs);
    }
  }
  return plan;
}

MessagePlan plan_allgather_linear(std::uint32_t ranks, std::uint64_t bytes) {
  MessagePlan plan(ranks);
  for (std::uint32_t distance = 1; distance < ranks; ++distance) {
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      plan.add({rank, (rank + distance) % ranks, bytes});
    }
  }
  return plan;
}

MessagePlan plan_allgather_recursive_doubling(std::uint32_t ranks, std::uint64_t bytes) {
  MessagePlan plan(ranks);
  AllReceived rounds(plan);
  const std::uint32_t actors = std::bit_floor(ranks);
  const std::uint32_t extra = ranks - actors;
  const auto rank_of_actor = [&](std::uint32_t actor) {
    return actor < extra ? 2 * actor : actor + extra;
  };
  for (std::uint32_t i = 0; i < extra; ++i) rounds.add({2 * i + 1, 2 * i, bytes});
  rounds.end_round();
  std::vector<std::uint64_t> held(actors);
  for (std::uint32_t actor = 0; actor < actors; ++actor) held[actor] = actor < extra ? 2 : 1;
  for (std::uint32_t width = 1; width < actors; width *= 2) {
    std::vector<std::uint64_t> next(actors);
    for (std::uint32_t actor = 0; actor < actors; ++actor) {
      const std::uint32_t partner = actor ^ width;
      rounds.add({rank_of_actor(actor), rank_of_actor(partner), held[actor] * bytes});
      next[actor] = held[actor] + held[partner];
    }
    rounds.end_round();
    held = std::move(next);
  }
  for (std::uint32_t i = 0; i < extra; ++i) rounds.add({2 * i, 2 * i + 1, (ranks - 1) * bytes});
  rounds.end_round();
  return plan;
}

MessagePlan plan_allgather_bruck(std::uint32_t ranks, std::uint64_t bytes) {
  MessagePlan plan(ranks);
  AllReceived rounds(plan);
  for (std::uint32_t have = 1; have < ranks; have *= 2) {
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      rounds.add({rank, (rank + ranks - have) % ranks, std::min(have, ranks - have) * bytes});
    }
    rounds.end_round();
  }
  return plan;
}

MessagePlan plan_allgather_multicast(std::uint32_t ranks, std::uint64_t bytes,
                                     std::uint32_t chains) {
  MessagePlan plan(ranks);
  const std::uint32_t length = (ranks + chains - 1) / chains;
  MessageIndex activation = kNoMessage;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    const std::span<const MessageIndex> needs(&activation, rank % length == 0 ? 0 : 1);
    plan.add({rank, kAllRanks, bytes}, needs);
    const bool last = (rank + 1) % length == 0 || rank + 1 == ranks;
    if (!last) activation = plan.add({rank, rank + 1, 0}, needs);
  }
  return plan;
}

MessagePlan plan_reduce_scatter_ring(std::uint32_t ranks, std::uint64_t bytes) {
  return plan_allgather_ring(ranks, bytes);
}

MessagePlan plan_reduce_scatter_in_network(std::uint32_t ranks, std::uint64_t bytes) {
  MessagePlan plan(ranks);
  for (std::uint32_t result = 0; result < ranks; ++result) {
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      if (rank != result) plan.add({rank, result, bytes, true});
    }
  }
  return plan;
}

MessagePlan plan_rings_together(std::uint32_t ranks, std::uint64_t bytes) {
  MessagePlan plan(ranks);
  for (std::uint32_t step = 0; step + 1 < ranks; ++step) {
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      for (std::uint32_t ring = 0; ring < 2; ++ring) {
        const std::uint32_t left = (rank + ranks - 1) % ranks;
        const MessageIndex from_left = ((step - 1) * ranks + left) * 2 + ring;
        plan.add({rank, (rank + 1) % ranks, bytes}, {&from_left, step == 0 ? 0u : 1u});
      }
    }
  }
  return plan;
}

MessagePlan plan_offloaded_together(std::uint32_t ranks, std::uint64_t bytes) {
  MessagePlan plan(ranks);
  for (std::uint32_t turn = 0; turn < ranks; ++turn) {
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      if (rank == turn) {
        plan.add({rank, kAllRanks, bytes});
      } else {
        plan.add({rank, turn, bytes, true});
      }
    }
  }
  return plan;
}

std::uint64_t paper_link_units(const MessagePlan& plan, std::uint64_t block_bytes) {
  constexpr std::int64_t kLeaf = 16;
  constexpr std::int64_t kPod = 32;
  const std::int64_t ranks = plan.ranks();
  const auto to_one = [](std::int64_t from, std::int64_t to) -> std::uint64_t {
    const std::int64_t distance = to - from;
    if (distance < kLeaf - from % kLeaf) return 2;
    return distance < kPod - from % kPod ? 4 : 6;
  };
  std::uint64_t to_all = 1 + static_cast<std::uint64_t>(ranks - 1);
  if (ranks > kPod) {
    const std::int64_t leaves = ranks / kLeaf;
    to_all += static_cast<std::uint64_t>((leaves + 1) / 2 + leaves - 1 + 2);
  } else if (ranks > kLeaf) {
    to_all += 2;
  }
  std::uint64_t units = 0;
  for (const Message& message : plan.messages()) {
    const std::uint64_t links = message.to == kAllRanks ? to_all : to_one(message.from, message.to);
    units += message.bytes / block_bytes * links;
  }
  return units;
}

}  // namespace tutti::sim
