#include "protocol/delivery_acks.hpp"

#include <gtest/gtest.h>

namespace tutti::protocol {
namespace {

constexpr Nanoseconds kDelay{1'000};
constexpr Rank kMe = rank_of(0);

TEST(DeliveryAcks, AreDueAfterAPauseAndSayItOnceForAll) {
  DeliveryAcks receipts(4, 1, kDelay);
  EXPECT_EQ(receipts.due(), kNever);
  receipts.owe(Instant{100}, rank_of(2), 1);
  receipts.owe(Instant{600}, rank_of(2), 2);
  receipts.owe(Instant{700}, rank_of(3), 3);
  EXPECT_EQ(receipts.due(), Instant{1'700});
  Outbox outbox;
  EXPECT_EQ(receipts.tell(outbox), 2u);
  ASSERT_EQ(outbox.items().size(), 2u);
  EXPECT_EQ(outbox.items()[0].to, rank_of(2));
  EXPECT_EQ(outbox.items()[0].message.kind, MessageKind::have);
  EXPECT_EQ(outbox.items()[0].message.epoch, 2u);
  EXPECT_EQ(outbox.items()[1].to, rank_of(3));
  EXPECT_EQ(outbox.items()[1].message.epoch, 3u);
  EXPECT_EQ(receipts.due(), kNever);
  EXPECT_EQ(receipts.tell(outbox), 0u);
}

TEST(DeliveryAcks, AllHaveABlockWhenEachHasSaidSo) {
  DeliveryAcks receipts(3, 1, kDelay);
  EXPECT_TRUE(receipts.all_but(kMe, 0)) << "nothing before the first is asked for";
  receipts.on_have(rank_of(1), 2);
  EXPECT_TRUE(receipts.has(rank_of(1), 1));
  EXPECT_FALSE(receipts.has(rank_of(2), 1));
  EXPECT_FALSE(receipts.all_but(kMe, 1));
  receipts.on_have(rank_of(2), 1);
  EXPECT_TRUE(receipts.all_but(kMe, 1));
  EXPECT_FALSE(receipts.all_but(kMe, 2));
  receipts.on_have(rank_of(2), 3);
  receipts.on_have(rank_of(2), 1);  // came late
  EXPECT_TRUE(receipts.all_but(kMe, 2));
  EXPECT_FALSE(receipts.all_but(kMe, 3));
}

TEST(DeliveryAcks, ACollectiveThatAllHaveBegunSaysItForAllBefore) {
  DeliveryAcks receipts(3, 1, kDelay);
  receipts.owe(Instant{0}, rank_of(1), 4);
  receipts.owe(Instant{0}, rank_of(2), 5);
  receipts.begun_by_all(5);
  EXPECT_TRUE(receipts.all_but(kMe, 4));
  EXPECT_FALSE(receipts.all_but(kMe, 5));
  Outbox outbox;
  EXPECT_EQ(receipts.tell(outbox), 1u);
  EXPECT_EQ(outbox.items()[0].to, rank_of(2));
  receipts.owe(Instant{0}, rank_of(1), 6);
  receipts.begun_by_all(7);
  EXPECT_EQ(receipts.due(), kNever);
  receipts.begun_by_all(3);  // an older one ends later
  EXPECT_TRUE(receipts.all_but(kMe, 6));
}

TEST(DeliveryAcks, EpochsWrap) {
  DeliveryAcks receipts(2, 0xffff'ffffu, kDelay);
  EXPECT_FALSE(receipts.all_but(kMe, 0xffff'ffffu));
  receipts.on_have(rank_of(1), 0);
  EXPECT_TRUE(receipts.all_but(kMe, 0xffff'ffffu));
  EXPECT_TRUE(receipts.all_but(kMe, 0));
  EXPECT_FALSE(receipts.all_but(kMe, 1));
  receipts.begun_by_all(2);
  EXPECT_TRUE(receipts.all_but(kMe, 1));
}

}  // namespace
}  // namespace tutti::protocol
