// Tests the limits on unexpected messages: those of collectives that this rank has not begun.
#include "engine/messages/message_router.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/core/communicator_context.hpp"
#include "fuzz/scripted_endpoint.hpp"
#include "protocol/codec/message.hpp"

namespace tutti::engine {
namespace {

constexpr Instant kNow{1'000'000};

std::vector<std::byte> message_of(std::uint32_t epoch) {
  std::array<std::byte, protocol::kMaxMessageBytes> bytes;
  protocol::Message message;
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
  ASSERT_EQ(status.ranks().size(), 2u);  // either rank may have called the wrong collective
  EXPECT_EQ(status.ranks()[0], Rank{0});
  EXPECT_NE(status.message().find("65536"), std::string::npos) << status.to_string();
}

}  // namespace
}  // namespace tutti::engine
