// Queue of completions that wait for the endpoint's next poll.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "device/device.hpp"

namespace tutti::device::rc {

/// Receives the completions of channels. The payload of a `receive` completion is valid only until
/// `push` returns, and `push` must not call the channel.
class CompletionSink {
 public:
  virtual ~CompletionSink() = default;
  virtual void push(const Completion& completion) = 0;
  /// Acts as MessageMatcher::match.
  virtual std::optional<MessagePlace> match(Rank /*source*/, std::span<const std::byte> /*first*/,
                                            std::size_t /*bytes*/) {
    return std::nullopt;
  }
};

/// Completions in order of arrival, with copies of the messages that they deliver.
class CompletionQueue final : public CompletionSink {
 public:
  static constexpr std::size_t kMost = 4096;

  void push(const Completion& completion) override;
  std::optional<MessagePlace> match(Rank source, std::span<const std::byte> first,
                                    std::size_t bytes) override {
    return matcher_ == nullptr ? std::nullopt : matcher_->match(source, first, bytes);
  }
  void use_matcher(MessageMatcher* matcher) { matcher_ = matcher; }
  /// Moves as many completions as fit to `out`; their payloads stay valid until the next `push`.
  std::size_t take(std::span<Completion> out);
  std::size_t size() const { return entries_.size() - taken_; }
  bool empty() const { return size() == 0; }
  /// True if so many completions wait that the endpoint should leave arrivals where they are, so
  /// that peers slow down.
  bool full() const { return size() >= kMost; }

 private:
  struct Entry {
    Completion completion;
    std::size_t offset;
    std::size_t size;
  };

  void drop_taken();

  std::vector<Entry> entries_;
  std::vector<std::byte> bytes_;
  std::size_t taken_ = 0;
  MessageMatcher* matcher_ = nullptr;
};

}  // namespace tutti::device::rc
