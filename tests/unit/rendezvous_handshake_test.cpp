// Tests the ready-to-send: a sender tells the size of a long message once its clear-to-send is
// overdue, and a receiver refuses another size. Time passes only as the tests say.
#include "engine/schedule/rendezvous_handshake.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/core/communicator_context.hpp"
#include "engine/schedule/schedule_operation.hpp"
#include "fuzz/scripted_endpoint.hpp"
#include "protocol/codec/data_message.hpp"
#include "schedule/builder.hpp"

namespace tutti::engine {
namespace {

constexpr Instant kNow{1'000'000};
constexpr std::uint64_t kEager = 10'000;
constexpr std::uint64_t kLong = 20'000;

/// One of the two ranks of a Gather to rank 0, without a network.
class GatherAtOneRank {
 public:
  GatherAtOneRank(std::uint32_t rank, std::uint64_t block_bytes)
      : send_(block_bytes), receive_(rank == 0 ? 2 * block_bytes : 0) {
    auto owned = std::make_unique<fuzz::ScriptedEndpoint>();
    endpoint_ = owned.get();
    context_ = std::make_unique<CommunicatorContext>(rank_of(rank), 2, Settings{}, std::move(owned),
                                                     std::vector<std::string>{"here", "there"});
    schedule::Builder b({schedule::Collective::gather, "test", 2, rank_of(rank), rank_of(0), {}});
    if (rank == 0) {
      b.copy(b.send_block(), b.receive_block(0));
      b.recv(rank_of(1), b.receive_block(1));
    } else {
      b.send(rank_of(0), b.send_block());
    }
    auto schedule = b.finish();
    EXPECT_TRUE(schedule.ok()) << schedule.status().to_string();
    auto operation = ScheduleOperation::create(
        {.description = {"gather", "test"},
         .schedule = std::make_shared<const schedule::Schedule>(std::move(*schedule)),
         .shape = schedule::Shape::uniform(block_bytes),
         .send = send_,
         .receive = receive_,
         .reduction = {}},
        std::make_shared<WorkspacePool>());
    EXPECT_TRUE(operation.ok()) << operation.status().to_string();
    context_->operations().submit(std::move(*operation));
    context_->poll(kNow);
  }

  /// Number of data messages that this rank has sent once it is polled at `now`.
  std::uint64_t sent_at(Instant now) {
    context_->poll(now);
    return endpoint_->data_posted();
  }
  void deliver(std::uint32_t from, std::uint32_t slot, std::span<const std::byte> payload) {
    std::vector<std::byte> bytes(protocol::kDataHeaderBytes);
    protocol::encode_data_header(1, slot, bytes.data());
    bytes.insert(bytes.end(), payload.begin(), payload.end());
    endpoint_->deliver(rank_of(from), std::move(bytes));
    context_->poll(kNow);
  }
  Instant deadline() const { return context_->operations().next_deadline(); }
  bool failed() const { return context_->failures().noted(); }
  std::string error() const { return context_->failures().status().message(); }

 private:
  std::vector<std::byte> send_;
  std::vector<std::byte> receive_;
  fuzz::ScriptedEndpoint* endpoint_ = nullptr;
  std::unique_ptr<CommunicatorContext> context_;
};

TEST(RendezvousHandshake, SenderWhoseClearToSendIsOverdue_tellsTheSizeOnce) {
  GatherAtOneRank sender(1, kLong);
  const Instant due = kNow + Settings{}.enquiry_patience;
  EXPECT_EQ(sender.deadline(), due) << "a sleeping thread must wake for it";
  EXPECT_EQ(sender.sent_at(due - Nanoseconds{1}), 0u);
  EXPECT_EQ(sender.sent_at(due), 1u);
  EXPECT_EQ(sender.deadline(), kNever);
  EXPECT_EQ(sender.sent_at(due + 10 * Settings{}.enquiry_patience), 1u);
}

TEST(RendezvousHandshake, SenderWithAClearToSend_tellsNoSize) {
  GatherAtOneRank sender(1, kLong);
  sender.deliver(0, schedule::kCtsSlots, encode(protocol::ClearToSend{1, 0, kLong}));
  EXPECT_FALSE(sender.failed()) << sender.error();
  EXPECT_EQ(sender.sent_at(kNow + Settings{}.enquiry_patience), 0u);
}

TEST(RendezvousHandshake, ReceiverOfAnotherSize_failsAndNamesBoth) {
  for (const std::uint64_t expected : {kEager, 2 * kLong}) {
    GatherAtOneRank receiver(0, expected);
    receiver.deliver(1, protocol::kReadySlot, encode(protocol::ReadyToSend{0, kLong}));
    EXPECT_NE(receiver.error().find("rank 1 (there) sends 20000 bytes, but rank 0 (here) expects " +
                                    std::to_string(expected)),
              std::string::npos)
        << receiver.error();
  }
}

TEST(RendezvousHandshake, ReceiverOfTheSameSize_ignoresIt) {
  GatherAtOneRank receiver(0, kLong);
  receiver.deliver(1, protocol::kReadySlot, encode(protocol::ReadyToSend{0, kLong}));
  EXPECT_FALSE(receiver.failed()) << receiver.error();
}

TEST(RendezvousHandshake, ReadyToSendOfNoMessage_isRejected) {
  const std::vector<std::byte> malformed(3);
  for (const bool decodes : {true, false}) {
    GatherAtOneRank receiver(0, kLong);
    const auto other = encode(protocol::ReadyToSend{7, kLong});
    receiver.deliver(1, protocol::kReadySlot,
                     decodes ? std::span<const std::byte>(other) : malformed);
    EXPECT_NE(receiver.error().find(decodes ? "a message that this rank does not expect"
                                            : "a ready-to-send that is not valid"),
              std::string::npos)
        << receiver.error();
    EXPECT_NE(receiver.error().find("rank 1"), std::string::npos) << receiver.error();
  }
}

}  // namespace
}  // namespace tutti::engine
