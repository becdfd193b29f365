// A collective as messages: sender, receiver, size, and the messages that the sender must have
// received before. Link traffic and time follow from them.
//
// The plans here are the algorithms of other libraries, for comparison; schedule_plan.hpp converts
// the engine's own schedules.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tutti::sim {

/// The index of a message in its plan, in order of addition.
using MessageIndex = std::uint32_t;

/// All ranks but the sender, by multicast.
inline constexpr std::uint32_t kAllRanks = 0xffff'ffffu;

struct Message {
  std::uint32_t from = 0;
  std::uint32_t to = 0;  ///< rank, or kAllRanks
  std::uint64_t bytes = 0;
  /// A contribution: the switches add those of all ranks but `to`, each of which sends one of this
  /// length, and `to` receives the sum.
  bool reduced = false;
};

class MessagePlan {
 public:
  explicit MessagePlan(std::uint32_t ranks) : ranks_(ranks), first_needs_(1) {}

  /// Adds a message that its sender sends after it has received all messages of `needs`, which are
  /// addressed to it and were added before. Of several sendable messages, those added first go
  /// first. Multicasts and contributions cannot be needs.
  MessageIndex add(const Message& message, std::span<const MessageIndex> needs = {});

  std::uint32_t ranks() const { return ranks_; }
  std::span<const Message> messages() const { return messages_; }
  std::span<const MessageIndex> needs(MessageIndex message) const {
    return {needs_.data() + first_needs_[message],
            first_needs_[message + 1] - first_needs_[message]};
  }

 private:
  std::uint32_t ranks_;
  std::vector<Message> messages_;
  std::vector<std::uint32_t> first_needs_;
  std::vector<MessageIndex> needs_;
};

// ---- Broadcast of `bytes` from rank 0 ----

/// k-nomial tree (2: binomial), the largest subtrees first.
MessagePlan plan_broadcast_k_nomial(std::uint32_t ranks, std::uint64_t bytes, std::uint32_t radix);
/// Children of r: 2r+1 and 2r+2.
MessagePlan plan_broadcast_binary_heap(std::uint32_t ranks, std::uint64_t bytes,
                                       std::uint32_t segments = 1);
/// Binary tree in which every subtree is a run of consecutive ranks with its root in the middle.
MessagePlan plan_broadcast_binary_in_order(std::uint32_t ranks, std::uint64_t bytes,
                                           std::uint32_t segments = 1);
/// Rank r to rank r+1, `segments` pieces behind one another.
MessagePlan plan_broadcast_chain(std::uint32_t ranks, std::uint64_t bytes, std::uint32_t segments);
MessagePlan plan_broadcast_linear(std::uint32_t ranks, std::uint64_t bytes);
/// Binomial scatter of P parts, then each part once around the ring.
MessagePlan plan_broadcast_scatter_ring(std::uint32_t ranks, std::uint64_t bytes);
MessagePlan plan_broadcast_multicast(std::uint32_t ranks, std::uint64_t bytes);

// ---- Allgather of `bytes` per rank ----

MessagePlan plan_allgather_ring(std::uint32_t ranks, std::uint64_t bytes);
MessagePlan plan_allgather_linear(std::uint32_t ranks, std::uint64_t bytes);
/// P = 2^n + x, not a power of two: of the first 2x ranks the even ones act for the odd ones.
MessagePlan plan_allgather_recursive_doubling(std::uint32_t ranks, std::uint64_t bytes);
MessagePlan plan_allgather_bruck(std::uint32_t ranks, std::uint64_t bytes);
/// Every rank multicasts its block, `chains` ranks at a time. Each activates the next in its chain
/// by a message without payload [Khalilov24] 4.1.
MessagePlan plan_allgather_multicast(std::uint32_t ranks, std::uint64_t bytes,
                                     std::uint32_t chains);

// ---- Reduce-Scatter, alone and beside an Allgather ----------------------------------------------
// Each result has `bytes` per rank. Additions take no time.

/// Each partial result travels once around the ring: the messages of a ring Allgather.
MessagePlan plan_reduce_scatter_ring(std::uint32_t ranks, std::uint64_t bytes);
/// Every rank contributes to each other rank's result, in the order of the results.
MessagePlan plan_reduce_scatter_in_network(std::uint32_t ranks, std::uint64_t bytes);
/// Ring Allgather and ring Reduce-Scatter at the same time, step by step in turn.
MessagePlan plan_rings_together(std::uint32_t ranks, std::uint64_t bytes);
/// Multicast Allgather and in-network Reduce-Scatter at the same time, in P turns. In turn r rank r
/// multicasts its block while all others contribute to its result. Every host sends and receives
/// one block a turn, and no two packets compete for a link.
MessagePlan plan_offloaded_together(std::uint32_t ranks, std::uint64_t bytes);

// ---- [Khalilov24] fig. 2 as its authors computed it ----

/// Link uses that the authors' script counts for a plan, in units of `block_bytes`, on a tree of 16
/// hosts a leaf and two leaves a pod. It differs from routing in two ways. The distance of two
/// ranks is signed, so a message to a lower rank stays within a leaf; and a multicast also descends
/// into the pod that it came from.
std::uint64_t paper_link_units(const MessagePlan& plan, std::uint64_t block_bytes);

}  // namespace tutti::sim
