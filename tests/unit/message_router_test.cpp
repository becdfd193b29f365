// Tests the limits on unexpected messages, and that a failed communicator matches no message. A
// message is unexpected if this rank has not begun its collective.
#include "engine/messages/message_router.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/core/communicator_context.hpp"
#include "fuzz/scripted_endpoint.hpp"
#include "protocol/codec/data_message.hpp"
#include "protocol/codec/message.hpp"
#include "protocol/codec/tagged_message.hpp"

namespace tutti::engine {
namespace {

constexpr Instant kNow{1'000'000};

std::vector<std::byte> message_of(std::uint32_t epoch,
                                  protocol::MessageKind kind = protocol::MessageKind::barrier) {
  std::array<std::byte, protocol::kMaxMessageBytes> bytes;
  protocol::Message message;
  message.kind = kind;
  message.epoch = epoch;
  const std::size_t size = protocol::encode(message, bytes.data());
  return {bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size)};
}

TEST(MessageRouter, MessagesBeyondTheLimit_failTheCommunicator) {
  constexpr std::uint32_t kLimit = 1 << 16;
  constexpr std::uint32_t kEpoch = 9;
  auto owned = std::make_unique<fuzz::ScriptedEndpoint>();
  fuzz::ScriptedEndpoint& endpoint = *owned;
  CommunicatorContext context(Rank{1}, 2, Settings{}, std::move(owned),
                              std::vector<std::string>{"rank 0", "rank 1"});
  for (std::uint32_t i = 0; i < kLimit; ++i) {
    endpoint.deliver(Rank{0}, message_of(kEpoch));
    context.poll(kNow);
  }
  EXPECT_FALSE(context.failures().noted());
  EXPECT_EQ(context.counters().messages_rejected, 0u);
  endpoint.deliver(Rank{0}, message_of(kEpoch));
  context.poll(kNow);
  const Status& status = context.failures().status();
  EXPECT_EQ(status.code(), Code::peer_failed);
  EXPECT_NE(status.message().find("sent a message for collective #9"), std::string::npos)
      << status.to_string();
  // The error names both ranks, because either may have called the wrong collective.
  ASSERT_EQ(status.ranks().size(), 2u);
  EXPECT_EQ(status.ranks()[0], Rank{0});
  EXPECT_NE(status.message().find("65536"), std::string::npos) << status.to_string();
}

/// The message of a schedule that carries no bytes.
std::vector<std::byte> data_of(std::uint32_t epoch) {
  std::vector<std::byte> bytes(protocol::kDataHeaderBytes);
  protocol::encode_data_header(epoch, 0, bytes.data());
  return bytes;
}

/// Accepts all data and never ends.
class AcceptingOperation final : public Operation {
 public:
  AcceptingOperation() : Operation({"barrier", "endless"}) {}
  void on_data(Instant, Rank, std::uint32_t, std::span<const std::byte>) override { ++accepted; }
  bool poll(Instant) override { return false; }
  bool locally_complete() const override { return true; }
  bool done() const override { return false; }
  observe::Phase phase() const override { return observe::Phase::data; }
  int accepted = 0;

 protected:
  void start(Instant, bool) override {}
};

TEST(MessageRouter, SignOfADifferentCall_forACollectiveThatHasEnded_failsTheCommunicator) {
  const std::uint32_t ended = Settings{}.first_epoch - 1;
  for (const std::vector<std::byte>& sign :
       {data_of(ended), message_of(ended, protocol::MessageKind::barrier),
        message_of(ended, protocol::MessageKind::final)}) {
    auto owned = std::make_unique<fuzz::ScriptedEndpoint>();
    fuzz::ScriptedEndpoint& endpoint = *owned;
    CommunicatorContext context(Rank{1}, 2, Settings{}, std::move(owned),
                                std::vector<std::string>{"rank 0", "rank 1"});
    endpoint.deliver(Rank{0}, message_of(ended, protocol::MessageKind::credit));
    context.poll(kNow);
    EXPECT_FALSE(context.failures().noted());
    endpoint.deliver(Rank{0}, sign);
    context.poll(kNow);
    const Status& status = context.failures().status();
    EXPECT_EQ(status.code(), Code::invalid_argument);
    EXPECT_NE(status.message().find("which has ended at this rank"), std::string::npos)
        << status.to_string();
    EXPECT_EQ(context.counters().messages_rejected, 1u);
  }
}

TEST(MessageRouter, DataWithoutPayloadBeyondTheLimit_failsTheCommunicator) {
  // The limit is 8 MiB, and a message without payload counts as 64 bytes.
  constexpr int kLimit = (8 << 20) / 64;
  auto owned = std::make_unique<fuzz::ScriptedEndpoint>();
  fuzz::ScriptedEndpoint& endpoint = *owned;
  CommunicatorContext context(Rank{1}, 2, Settings{}, std::move(owned),
                              std::vector<std::string>{"rank 0", "rank 1"});
  const auto deliver = [&](int messages, std::uint32_t epoch) {
    for (int i = 0; i < messages; ++i) {
      endpoint.deliver(Rank{0}, data_of(epoch));
      context.poll(kNow);
    }
  };
  deliver(kLimit, 1);
  EXPECT_FALSE(context.failures().noted());
  auto operation = std::make_unique<AcceptingOperation>();
  const AcceptingOperation& begun = *operation;
  context.operations().submit(std::move(operation));
  context.poll(kNow);
  EXPECT_EQ(begun.accepted, kLimit);
  deliver(kLimit, 9);
  EXPECT_FALSE(context.failures().noted()) << "the messages of collective #1 must make room";
  deliver(1, 9);
  const Status& status = context.failures().status();
  EXPECT_EQ(status.code(), Code::peer_failed);
  EXPECT_NE(status.message().find("sent data for collective #9"), std::string::npos)
      << status.to_string();
}

/// Offers the first frame of a tagged message to the matcher in each poll.
class OfferingEndpoint final : public fuzz::ScriptedEndpoint {
 public:
  void use_matcher(device::MessageMatcher* matcher) override { matcher_ = matcher; }
  std::size_t poll(Instant now, std::span<device::Completion> completions) override {
    std::array<std::byte, protocol::kMaxTaggedHeaderBytes> header;
    const std::size_t bytes =
        protocol::encode_tagged({.kind = protocol::TaggedKind::eager, .tag = 5}, header);
    last_match = matcher_->match(Rank{0}, std::span(header).first(bytes), bytes + 2'000);
    return ScriptedEndpoint::poll(now, completions);
  }
  std::optional<device::MessagePlace> last_match;

 private:
  device::MessageMatcher* matcher_ = nullptr;
};

TEST(MessageRouter, MessageAfterAFailure_isNotPlacedInACallersBuffer) {
  auto owned = std::make_unique<OfferingEndpoint>();
  OfferingEndpoint& endpoint = *owned;
  CommunicatorContext context(Rank{1}, 2, Settings{}, std::move(owned),
                              std::vector<std::string>{"rank 0", "rank 1"});
  std::vector<std::byte> buffer(2'000);
  for (int i = 0; i < 2; ++i) {
    auto call = std::make_unique<TaggedCall>(
        TaggedCall{.kind = TaggedCall::Kind::receive, .peer = Rank{0}, .tag = 5, .buffer = buffer});
    call->completion = std::make_shared<Completion>();
    context.tagged().submit(std::move(call));
  }
  context.poll(kNow);
  ASSERT_TRUE(endpoint.last_match.has_value());
  EXPECT_EQ(endpoint.last_match->memory.data(), buffer.data());
  context.failures().abort("test");
  for (int polls = 0; polls < 3; ++polls) {
    // The first poll of the context makes the failure final (FailureCoordinator::settle), and then
    // polls the device for the last time. In that poll of the device, no receive may get a message.
    context.poll(kNow);
    EXPECT_TRUE(context.failures().settled());
    EXPECT_FALSE(endpoint.last_match.has_value()) << "poll " << polls;
  }
}

}  // namespace
}  // namespace tutti::engine
