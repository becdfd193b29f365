// The lock-free queue through which application threads hand operations to the engine.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "engine/core/operation.hpp"

namespace tutti::engine {

/// A queue of any number of producers and one consumer. Operations of one producer keep their
/// order.
class SubmissionQueue {
 public:
  SubmissionQueue() = default;
  SubmissionQueue(const SubmissionQueue&) = delete;
  SubmissionQueue& operator=(const SubmissionQueue&) = delete;
  ~SubmissionQueue() { take_all(); }

  void push(std::unique_ptr<Operation> operation) {
    auto* node = new Node{std::move(operation), head_.load(std::memory_order_relaxed)};
    while (!head_.compare_exchange_weak(node->next, node, std::memory_order_release,
                                        std::memory_order_relaxed)) {
    }
  }
  bool empty() const { return head_.load(std::memory_order_relaxed) == nullptr; }
  /// Removes and returns all operations submitted so far, oldest first.
  std::vector<std::unique_ptr<Operation>> take_all() {
    std::vector<std::unique_ptr<Operation>> taken;
    Node* node = head_.exchange(nullptr, std::memory_order_acquire);
    while (node != nullptr) {
      taken.push_back(std::move(node->operation));
      delete std::exchange(node, node->next);
    }
    return {std::make_move_iterator(taken.rbegin()), std::make_move_iterator(taken.rend())};
  }

 private:
  struct Node {
    std::unique_ptr<Operation> operation;
    Node* next;
  };

  std::atomic<Node*> head_{nullptr};
};

}  // namespace tutti::engine
