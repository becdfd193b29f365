// Tests sends and receives with random tags, masks, sources, lengths and cancellations: each
// receive must get the message that a reference matcher predicts. Rank 1 sends, rank 0 receives.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <map>
#include <optional>
#include <vector>

#include "base/random.hpp"
#include "communicator_ranks.hpp"
#include "count_wanted.hpp"
#include "reference_matcher.hpp"

namespace tutti {
namespace {

using namespace test;
using Number = protocol::TagMatcher::Number;
using Pattern = protocol::TagMatcher::Pattern;

constexpr Rank kReceiver{0};
constexpr Rank kSender{1};
constexpr std::uint64_t kTags = 6;
constexpr std::size_t kLongBytes = 70'000;  // longer than any eager message
constexpr std::uint64_t kPerRound = 100;    // number of receives, and of messages, in a round
constexpr std::size_t kMostUnexpected = 400;

/// Tag and length of a message, which both ranks derive from its number.
struct Message {
  std::uint64_t tag;
  std::size_t bytes;

  static Message of(Number number) {
    Random random(draw(1, number));
    const std::uint64_t tag = random.below(kTags);
    return {tag, random.below(16) == 0 ? kLongBytes : random.below(4'000)};
  }
  bool is_long() const { return bytes == kLongBytes; }
};

/// The receives of rank 0, and the messages that they must get.
class Receiver {
 public:
  explicit Receiver(Communicator& communicator) : communicator_(communicator) {}

  void post(const Pattern& pattern, std::size_t room) {
    const Number number = next_++;
    Receive& made = receives_[number];
    made.buffer.resize(room);
    made.request = begun(communicator_.receive(made.buffer, pattern.source, pattern.tag,
                                               {.tag_mask = pattern.mask}));
    expect(number, reference_.post(number, pattern));
  }
  /// Cancels a recently posted receive. If no message has matched it yet, the receive must end at
  /// once.
  void cancel_one(Random& random) {
    const Number number = next_ - std::min(next_, random.below(kPerRound));
    const auto found = receives_.find(number);
    if (found == receives_.end()) return;
    const bool kept = reference_.cancel(number);
    EXPECT_TRUE(found->second.request.cancel().ok());
    if (!kept) return;
    EXPECT_EQ(found->second.request.wait_for(kLong).code(), Code::aborted);
    receives_.erase(found);
    ++cancelled_;
  }
  void arrive(Number message) {
    const auto receive = reference_.arrive(message, {kSender, Message::of(message).tag});
    if (receive) receives_.at(*receive).message = message;
  }
  /// Checks all receives that have got a message by now.
  void check() {
    for (auto at = receives_.begin(); at != receives_.end();) {
      if (at->second.message) check(at->second, *at->second.message);
      at = at->second.message ? receives_.erase(at) : std::next(at);
    }
  }
  /// Receives all unexpected messages, and cancels all receives without a message.
  void drain() {
    while (reference_.kept_messages() > 0) post({.mask = 0}, kLongBytes);
    check();
    for (auto& [number, receive] : receives_) {
      EXPECT_TRUE(reference_.cancel(number));
      EXPECT_TRUE(receive.request.cancel().ok());
      EXPECT_EQ(receive.request.wait_for(kLong).code(), Code::aborted);
    }
    receives_.clear();
  }

  std::size_t unexpected() const { return reference_.kept_messages(); }
  std::uint64_t posted() const { return next_; }
  std::uint64_t cancelled() const { return cancelled_; }
  std::uint64_t truncated() const { return truncated_; }

 private:
  struct Receive {
    Bytes buffer;
    Request request;
    std::optional<Number> message;
  };

  void expect(Number receive, std::optional<Number> message) {
    if (message) receives_.at(receive).message = message;
  }
  void check(Receive& receive, Number number) {
    const Message wanted = Message::of(number);
    const Status status = receive.request.wait_for(kLong);
    const MessageInfo info = receive.request.message();
    EXPECT_EQ(info.source, kSender);
    EXPECT_EQ(info.tag, wanted.tag);
    EXPECT_EQ(info.bytes, wanted.bytes) << "message " << number;
    if (wanted.bytes > receive.buffer.size()) {
      EXPECT_EQ(status.code(), Code::invalid_argument);
      ++truncated_;
      return;
    }
    EXPECT_TRUE(status.ok()) << status.to_string();
    receive.buffer.resize(wanted.bytes);
    EXPECT_EQ(receive.buffer, pattern(wanted.bytes, number)) << "message " << number;
  }

  Communicator& communicator_;
  ReferenceMatcher reference_;
  std::map<Number, Receive> receives_;  ///< receives that wait for a message or are not checked yet
  Number next_ = 0;
  std::uint64_t cancelled_ = 0;
  std::uint64_t truncated_ = 0;
};

void post_some(Receiver& receiver, Random& random) {
  for (std::uint64_t i = 0; i < kPerRound; ++i) {
    if (random.below(10) == 0) receiver.cancel_one(random);
    const Pattern pattern{.source = random.below(4) == 0 ? kAnyRank : kSender,
                          .tag = random.below(kTags),
                          .mask = random.below(4) == 0 ? random.below(8) : UINT64_MAX};
    receiver.post(pattern, random.below(8) == 0 ? random.below(1'000) : kLongBytes);
  }
}

void wait_for_messages(const Communicator& communicator, std::uint64_t sent) {
  const auto arrived = [&] {
    const Counters counters = counters_of(communicator);
    return counters.at("tagged_expected") + counters.at("tagged_unexpected");
  };
  while (arrived() < sent) ASSERT_TRUE(communicator.status().ok());  // status() polls for messages
  ASSERT_EQ(arrived(), sent);
}

TEST(RandomMessages, Receives_getTheMessagesOfAReferenceMatcher) {
  const std::uint64_t calls = count_wanted("TUTTI_TEST_MESSAGE_CALLS", 20'000);
  const std::uint64_t rounds = calls / (2 * kPerRound);
  on_ranks(2, patient(), [&](Communicator& communicator) {
    Receiver receiver(communicator);
    Random random(2);
    std::vector<std::pair<Bytes, Request>> sends;
    std::uint64_t long_messages = 0;
    for (std::uint64_t round = 0; round < rounds; ++round) {
      if (communicator.rank() == kReceiver) post_some(receiver, random);
      finish(communicator.barrier());
      for (Number number = round * kPerRound; number < (round + 1) * kPerRound; ++number) {
        const Message message = Message::of(number);
        long_messages += message.is_long();
        if (communicator.rank() == kReceiver) {
          receiver.arrive(number);
          continue;
        }
        sends.emplace_back(pattern(message.bytes, number), Request());
        sends.back().second = begun(communicator.send(sends.back().first, kReceiver, message.tag));
      }
      if (communicator.rank() == kReceiver) {
        wait_for_messages(communicator, (round + 1) * kPerRound);
        receiver.check();
        if (receiver.unexpected() > kMostUnexpected) receiver.drain();
      }
      finish(communicator.barrier());
      std::erase_if(sends, [](auto& send) { return send.second.test(); });
    }
    receiver.drain();
    for (auto& [bytes, request] : sends) EXPECT_TRUE(request.wait_for(kLong).ok());
    finish(communicator.barrier());
    if (communicator.rank() == kSender) {
      // If the receiver has no room for another eager message, a short message also goes by
      // rendezvous.
      EXPECT_GT(counters_of(communicator).at("tagged_sent_rendezvous"), long_messages);
      return;
    }
    EXPECT_GT(receiver.cancelled(), 0u);
    EXPECT_GT(receiver.truncated(), 0u);
    std::printf(
        "[ figures  ] %s: %llu receives, %llu messages, %llu cancelled, %llu longer than their "
        "buffer: as the reference\n",
        std::string(communicator.device()).c_str(),
        static_cast<unsigned long long>(receiver.posted()),
        static_cast<unsigned long long>(rounds * kPerRound),
        static_cast<unsigned long long>(receiver.cancelled()),
        static_cast<unsigned long long>(receiver.truncated()));
  });
}

}  // namespace
}  // namespace tutti
