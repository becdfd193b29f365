// A message plan: the messages of a collective with sender, receiver and size. For each message,
// the plan also lists the messages that the sender must receive first. Link traffic and time follow
// from a plan.
//
// The plans in this file are algorithms of other libraries, for comparison. In the tests, these
// plans are also the oracle for the plans that schedule_plan.hpp makes from schedules.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tutti::sim {

/// The index of a message in its plan, in order of addition.
using MessageIndex = std::uint32_t;

/// The receiver of a multicast: all ranks except the sender.
inline constexpr std::uint32_t kAllRanks = 0xffff'ffffu;

struct Message {
  std::uint32_t from = 0;
  std::uint32_t to = 0;  ///< receiving rank, or kAllRanks
  std::uint64_t bytes = 0;
  /// Whether the message is a contribution. The switches add the contributions of all ranks except
  /// `to`, and `to` receives the sum.
  bool reduced = false;
};

class MessagePlan {
 public:
  explicit MessagePlan(std::uint32_t ranks) : ranks_(ranks), first_needs_(1) {}

  /// Adds a message, which its sender sends once the sender has received all messages of `needs`.
  /// The messages of `needs` must have been added before, and must be unicast messages to this
  /// sender, not multicasts or contributions. Messages that become ready at the same time are sent
  /// in the order in which they were added.
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

/// Broadcast by a k-nomial tree, where k is `radix` (2: binomial). The largest subtrees are served
/// first.
MessagePlan plan_broadcast_k_nomial(std::uint32_t ranks, std::uint64_t bytes, std::uint32_t radix);
/// Broadcast by a binary tree, in which rank r has the children 2r+1 and 2r+2.
MessagePlan plan_broadcast_binary_heap(std::uint32_t ranks, std::uint64_t bytes,
                                       std::uint32_t segments = 1);
/// Broadcast from rank 0 to a binary tree of the other ranks. Every subtree is a run of consecutive
/// ranks with its root in the middle.
MessagePlan plan_broadcast_binary_in_order(std::uint32_t ranks, std::uint64_t bytes,
                                           std::uint32_t segments = 1);
/// Broadcast by a chain from rank r to rank r+1, pipelined in `segments` pieces.
MessagePlan plan_broadcast_chain(std::uint32_t ranks, std::uint64_t bytes, std::uint32_t segments);
MessagePlan plan_broadcast_linear(std::uint32_t ranks, std::uint64_t bytes);
/// Broadcast by a binomial scatter of one part per rank, after which each part goes once around a
/// ring.
MessagePlan plan_broadcast_scatter_ring(std::uint32_t ranks, std::uint64_t bytes);
MessagePlan plan_broadcast_multicast(std::uint32_t ranks, std::uint64_t bytes);

// ---- Allgather of `bytes` per rank ----

MessagePlan plan_allgather_ring(std::uint32_t ranks, std::uint64_t bytes);
MessagePlan plan_allgather_linear(std::uint32_t ranks, std::uint64_t bytes);
/// Allgather by recursive doubling. If there are 2^n + x ranks with x < 2^n, each even rank r below
/// 2x also exchanges the block of rank r + 1.
MessagePlan plan_allgather_recursive_doubling(std::uint32_t ranks, std::uint64_t bytes);
MessagePlan plan_allgather_bruck(std::uint32_t ranks, std::uint64_t bytes);
/// Allgather in which every rank multicasts its block, `chains` ranks at a time. Each rank
/// activates the next in its chain by a message without payload [Khalilov24] 4.1.
MessagePlan plan_allgather_multicast(std::uint32_t ranks, std::uint64_t bytes,
                                     std::uint32_t chains);

// ---- Reduce-Scatter, alone and beside an Allgather ----------------------------------------------
// Each result has `bytes` per rank. Additions take no time.

/// Reduce-Scatter in which each partial result travels once around the ring. It has the same
/// messages as a ring Allgather.
MessagePlan plan_reduce_scatter_ring(std::uint32_t ranks, std::uint64_t bytes);
/// Reduce-Scatter by in-network reductions: every rank contributes to the results of all other
/// ranks, in rank order.
MessagePlan plan_reduce_scatter_in_network(std::uint32_t ranks, std::uint64_t bytes);
/// Ring Allgather and ring Reduce-Scatter at the same time, in alternating steps.
MessagePlan plan_rings_together(std::uint32_t ranks, std::uint64_t bytes);
/// Multicast Allgather and in-network Reduce-Scatter at the same time, with one turn per rank. In
/// turn r, rank r multicasts its block, and all other ranks contribute to the result of rank r.
/// Every host therefore sends and receives one block in a turn, and no two packets compete for a
/// link.
MessagePlan plan_offloaded_together(std::uint32_t ranks, std::uint64_t bytes);

// ---- [Khalilov24] fig. 2 as its authors computed it ----

/// Counts the link uses of a plan, in units of `block_bytes`, as the script by the authors of
/// [Khalilov24] counts them. The network is a tree with 16 hosts per leaf switch and two leaf
/// switches per pod. The script differs from real routes: it counts every message to a lower rank
/// as if both hosts had the same leaf switch, and it lets a multicast descend again into the pod
/// from which it came.
std::uint64_t paper_link_units(const MessagePlan& plan, std::uint64_t block_bytes);

}  // namespace tutti::sim
