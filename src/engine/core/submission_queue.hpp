// The lock-free queue through which application threads hand their calls to the engine.
#pragma once

#include <atomic>
#include <memory>
#include <utility>

namespace tutti::engine {

/// A queue of any number of producers and one consumer. Calls of one producer keep their order.
template <typename Call>
class SubmissionQueue {
 public:
  SubmissionQueue() = default;
  SubmissionQueue(const SubmissionQueue&) = delete;
  SubmissionQueue& operator=(const SubmissionQueue&) = delete;
  ~SubmissionQueue() {
    while (front() != nullptr) pop();
  }

  void push(std::unique_ptr<Call> call) {
    auto* node = new Node{std::move(call), head_.load(std::memory_order_relaxed)};
    while (!head_.compare_exchange_weak(node->next, node, std::memory_order_seq_cst,
                                        std::memory_order_relaxed)) {
    }
  }

  // Only the consumer calls the functions below. None of them allocates, so that no call is
  // lost for lack of memory.

  /// Sequentially consistent, like `push`: if the consumer first sets the flag
  /// `OperationQueue::dormant` and then finds this queue empty, each producer that pushes a call
  /// later sees the flag.
  bool empty() const {
    return oldest_ == nullptr && head_.load(std::memory_order_seq_cst) == nullptr;
  }
  /// The oldest call, which the consumer may move out before it calls `pop`; null: none.
  std::unique_ptr<Call>* front() {
    if (oldest_ == nullptr) take_over();
    return oldest_ == nullptr ? nullptr : &oldest_->call;
  }
  void pop() { delete std::exchange(oldest_, oldest_->next); }

 private:
  struct Node {
    std::unique_ptr<Call> call;
    Node* next;
  };

  /// Moves the submitted calls, which are linked newest first, to `oldest_`, oldest first.
  void take_over() {
    Node* node = head_.exchange(nullptr, std::memory_order_acquire);
    while (node != nullptr) {
      Node* const next = std::exchange(node->next, oldest_);
      oldest_ = std::exchange(node, next);
    }
  }

  std::atomic<Node*> head_{nullptr};
  Node* oldest_ = nullptr;  ///< calls that the consumer has taken over, oldest first
};

}  // namespace tutti::engine
