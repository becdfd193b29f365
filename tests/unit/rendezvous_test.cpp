// Tests long tagged messages between two communicator contexts on the host device. The test polls
// the contexts itself, so that it can check each step: what a poll sends, and which rank copies the
// bytes.
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "device/host/host_device.hpp"
#include "engine/core/communicator_context.hpp"
#include "requirements.hpp"
#include "unit/peer_memory.hpp"

namespace tutti::engine {
namespace {

using Bytes = std::vector<std::byte>;

class Rendezvous : public testing::Test {
 protected:
  void SetUp() override {
    const std::vector<Rank> ranks{Rank{0}, Rank{1}};
    std::array<std::unique_ptr<device::Endpoint>, 2> endpoints;
    std::vector<Bytes> addresses;
    for (const Rank rank : ranks) {
      auto opened = device::host::HostDevice().open({.rank = rank,
                                                     .size = 2,
                                                     .communicator = 1,
                                                     .local_ranks = ranks,
                                                     .peer_timeout = std::chrono::seconds(5)});
      ASSERT_TRUE(opened.ok()) << opened.status().to_string();
      addresses.push_back((*opened)->address());
      endpoints[index(rank)] = std::move(*opened);
    }
    for (const Rank rank : ranks) {
      ASSERT_TRUE(endpoints[index(rank)]->connect(addresses).ok());
      contexts_[index(rank)] = std::make_unique<CommunicatorContext>(
          rank, 2, Settings{}, std::move(endpoints[index(rank)]),
          std::vector<std::string>{"rank 0", "rank 1"});
    }
  }

  std::shared_ptr<Completion> submit(Rank rank, TaggedCall call) {
    auto completion = std::make_shared<Completion>();
    call.completion = completion;
    contexts_[index(rank)]->tagged().submit(std::make_unique<TaggedCall>(std::move(call)));
    return completion;
  }
  void poll(Rank rank) {
    now_ = now_ + Nanoseconds(1000);
    contexts_[index(rank)]->poll(now_);
  }

  std::array<std::unique_ptr<CommunicatorContext>, 2> contexts_;
  Instant now_{1'000'000'000};
};

TEST_F(Rendezvous, Send_toAReceiverThatStopsPollingAfterTheReceive_completes) {
  Bytes sent(300'000, std::byte{7});
  Bytes received(sent.size());
  const auto send =
      submit(Rank{0}, {.kind = TaggedCall::Kind::send, .peer = Rank{1}, .buffer = sent});
  const auto receive =
      submit(Rank{1}, {.kind = TaggedCall::Kind::receive, .peer = Rank{0}, .buffer = received});
  poll(Rank{0});
  for (int i = 0; i < 100 && !receive->done; ++i) {
    poll(Rank{1});
    if (!receive->done) poll(Rank{0});
  }
  ASSERT_TRUE(receive->done);
  EXPECT_EQ(received, sent);
  EXPECT_FALSE(send->done);
  poll(Rank{0});
  EXPECT_TRUE(send->done) << "the receiver's answer must not wait for its next poll";
}

TEST_F(Rendezvous, LongMessage_isCopiedOnce_byTheReceiver) {
  if (!test::reads_processes())
    return test::skip_without("peermemory", "process_vm_readv is refused");
  Bytes sent(3'000'000, std::byte{7});
  Bytes received(sent.size());
  submit(Rank{0}, {.kind = TaggedCall::Kind::send, .peer = Rank{1}, .buffer = sent});
  const auto receive =
      submit(Rank{1}, {.kind = TaggedCall::Kind::receive, .peer = Rank{0}, .buffer = received});
  poll(Rank{0});
  for (int i = 0; i < 100 && !receive->done; ++i) poll(Rank{1});
  ASSERT_TRUE(receive->done) << "rank 0 is not polled, so only rank 1 can copy the bytes";
  EXPECT_EQ(received, sent);
  const device::EndpointCounters receiver = contexts_[1]->endpoint().counters();
  EXPECT_EQ(receiver.read_bytes_direct, sent.size());
  EXPECT_EQ(contexts_[0]->endpoint().counters().read_bytes_served, 0u);
  EXPECT_EQ(contexts_[1]->counters().tagged_bytes_copied, 0u);
}

}  // namespace
}  // namespace tutti::engine
