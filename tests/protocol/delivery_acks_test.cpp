#include "protocol/delivery_acks.hpp"

#include <gtest/gtest.h>

namespace tutti::protocol {
namespace {

constexpr Nanoseconds kDelay{1'000};
constexpr Rank kMe = rank_of(0);

TEST(DeliveryAcks, DeliveryAck_toARoot_coversAllBlocksOfTheRoot) {
  DeliveryAcks acks(4, 1, kDelay);
  EXPECT_EQ(acks.due(), kNever);
  acks.schedule(Instant{100}, rank_of(2), 1);
  acks.schedule(Instant{600}, rank_of(2), 2);
  acks.schedule(Instant{700}, rank_of(3), 3);
  EXPECT_EQ(acks.due(), Instant{1'700});
  Outbox outbox;
  EXPECT_EQ(acks.send(outbox), 2u);
  ASSERT_EQ(outbox.items().size(), 2u);
  EXPECT_EQ(outbox.items()[0].to, rank_of(2));
  EXPECT_EQ(outbox.items()[0].message.kind, MessageKind::delivered);
  EXPECT_EQ(outbox.items()[0].message.epoch, 2u);
  EXPECT_EQ(outbox.items()[1].to, rank_of(3));
  EXPECT_EQ(outbox.items()[1].message.epoch, 3u);
  EXPECT_EQ(acks.due(), kNever);
  EXPECT_EQ(acks.send(outbox), 0u);
}

TEST(DeliveryAcks, BlockIsDeliveredWhenEveryRankHasAcknowledged) {
  DeliveryAcks acks(3, 1, kDelay);
  EXPECT_TRUE(acks.all_but(kMe, 0)) << "blocks before the first epoch need no ACK";
  acks.on_ack(rank_of(1), 2);
  EXPECT_TRUE(acks.has(rank_of(1), 1));
  EXPECT_FALSE(acks.has(rank_of(2), 1));
  EXPECT_FALSE(acks.all_but(kMe, 1));
  acks.on_ack(rank_of(2), 1);
  EXPECT_TRUE(acks.all_but(kMe, 1));
  EXPECT_FALSE(acks.all_but(kMe, 2));
  acks.on_ack(rank_of(2), 3);
  // An ACK of an earlier epoch that arrives late must not undo the ACK of a later epoch.
  acks.on_ack(rank_of(2), 1);
  EXPECT_TRUE(acks.all_but(kMe, 2));
  EXPECT_FALSE(acks.all_but(kMe, 3));
}

TEST(DeliveryAcks, CollectiveBegunByAllRanks_acknowledgesAllEarlierBlocks) {
  DeliveryAcks acks(3, 1, kDelay);
  acks.schedule(Instant{0}, rank_of(1), 4);
  acks.schedule(Instant{0}, rank_of(2), 5);
  acks.begun_by_all(5);
  EXPECT_TRUE(acks.all_but(kMe, 4));
  EXPECT_FALSE(acks.all_but(kMe, 5));
  Outbox outbox;
  EXPECT_EQ(acks.send(outbox), 1u);
  EXPECT_EQ(outbox.items()[0].to, rank_of(2));
  acks.schedule(Instant{0}, rank_of(1), 6);
  acks.begun_by_all(7);
  EXPECT_EQ(acks.due(), kNever);
  // An older collective that ends later must not withdraw the ACK of a newer collective.
  acks.begun_by_all(3);
  EXPECT_TRUE(acks.all_but(kMe, 6));
}

TEST(DeliveryAcks, DeliveryAck_coversEarlierBlocks_evenIfEpochsWrap) {
  DeliveryAcks acks(2, 0xffff'ffffu, kDelay);
  EXPECT_FALSE(acks.all_but(kMe, 0xffff'ffffu));
  acks.on_ack(rank_of(1), 0);
  EXPECT_TRUE(acks.all_but(kMe, 0xffff'ffffu));
  EXPECT_TRUE(acks.all_but(kMe, 0));
  EXPECT_FALSE(acks.all_but(kMe, 1));
  acks.begun_by_all(2);
  EXPECT_TRUE(acks.all_but(kMe, 1));
}

TEST(DeliveryAcks, AckOlderThanHalfTheEpochRange_doesNotAcknowledgeANewBlock) {
  DeliveryAcks acks(2, 1, kDelay);
  acks.on_ack(rank_of(1), 100);
  std::uint32_t epoch = 100;
  for (int step = 0; step < 3; ++step) acks.begun_by_all(epoch += 1'000'000'000);
  EXPECT_TRUE(acks.all_but(kMe, epoch - 1));
  EXPECT_FALSE(acks.all_but(kMe, epoch + 10));
  acks.on_ack(rank_of(1), epoch + 10);
  EXPECT_TRUE(acks.all_but(kMe, epoch + 10));
}

TEST(DeliveryAcks, RestartedRecord_afterHalfTheEpochRange_acknowledgesEarlierBlocksOnly) {
  constexpr std::uint32_t kLater = (1u << 31) + 200;
  DeliveryAcks acks(2, 1, kDelay);
  acks.on_ack(rank_of(1), 100);
  acks.restart(kLater);
  EXPECT_TRUE(acks.all_but(kMe, kLater - 1));
  EXPECT_FALSE(acks.has(rank_of(1), kLater));
  EXPECT_FALSE(acks.all_but(kMe, kLater));
  acks.on_ack(rank_of(1), kLater);
  EXPECT_TRUE(acks.all_but(kMe, kLater));
}

TEST(DeliveryAcks, PendingAck_afterHalfTheEpochRange_isWithdrawnOnlyByALaterCollective) {
  constexpr std::uint32_t kLater = (1u << 31) + 200;
  DeliveryAcks acks(2, 1, kDelay);
  acks.schedule(Instant{0}, rank_of(1), kLater);
  acks.begun_by_all(kLater);
  EXPECT_LT(acks.due(), kNever);
  acks.begun_by_all(kLater + 1);
  EXPECT_EQ(acks.due(), kNever);
}

}  // namespace
}  // namespace tutti::protocol
