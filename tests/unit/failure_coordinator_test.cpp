// Tests the ranks at fault in the errors of a failed communicator.
#include "engine/peers/failure_coordinator.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace tutti::engine {
namespace {

constexpr Rank kMe{1};
constexpr std::uint32_t kSize = 4;
constexpr std::uint32_t kJobSize = 20;

using Ranks = std::vector<Rank>;

Ranks ranks(const Status& status) { return {status.ranks().begin(), status.ranks().end()}; }

device::Completion lost(Rank peer, std::uint32_t undelivered_bytes = 0) {
  device::Completion completion{};
  completion.peer = peer;
  completion.undelivered_bytes = undelivered_bytes;
  return completion;
}

protocol::Message notice(std::uint64_t argument, std::uint32_t undelivered_bytes = 0) {
  protocol::Message message;
  message.kind = protocol::MessageKind::failed;
  message.epoch = undelivered_bytes;
  message.argument = argument;
  return message;
}

/// A failure notice of rank `finder`, which found that rank `lost` is lost. `epoch` is kAlone if no
/// rank answers `finder`; otherwise it is the length of the packets that do not reach `lost`.
protocol::Message notice_of(Rank finder, Rank lost, std::uint32_t epoch) {
  return notice(std::uint64_t{index(finder)} << 32 | index(lost), epoch);
}

const Status& settled(FailureCoordinator& failures) {
  protocol::Outbox notices;
  failures.settle(notices);
  return failures.status();
}

class FailureCoordinatorTest : public testing::Test {
 protected:
  RankNames names_{{}, {}, kJobSize};
  FailureCoordinator failures_{kMe, kSize, names_};
};

TEST_F(FailureCoordinatorTest, SilentPeer_isAtFault) {
  failures_.on_peer_failure(lost(Rank{2}));
  EXPECT_EQ(ranks(settled(failures_)), Ranks{Rank{2}});
}

device::Completion lost_by(device::Blame blame, Rank peer) {
  device::Completion completion = lost(peer);
  completion.blame = blame;
  return completion;
}

TEST_F(FailureCoordinatorTest, SilentPeer_ifThisRankHearsNoPeer_isNamedWithThisRank) {
  failures_.on_peer_failure(lost_by(device::Blame::either, Rank{2}));
  protocol::Outbox notices;
  ASSERT_TRUE(failures_.settle(notices));
  EXPECT_EQ(ranks(failures_.status()), (Ranks{Rank{2}, kMe}));
  FailureCoordinator peer(Rank{0}, kSize, names_);
  peer.on_notice(kMe, notices.items().front().message);
  EXPECT_EQ(ranks(settled(peer)), (Ranks{Rank{2}, kMe}));
}

// Rank 3 hears no peer and reports that rank 2 is lost. Rank 1 passes the report on, and rank 2
// learns from it that rank 3 is cut off.
TEST_F(FailureCoordinatorTest, RankAccusedByARankThatHearsNoPeer_learnsThatTheAccuserIsLost) {
  failures_.on_notice(Rank{3}, notice_of(Rank{3}, Rank{2}, protocol::kAlone));
  protocol::Outbox notices;
  ASSERT_TRUE(failures_.settle(notices));
  ASSERT_EQ(notices.items().size(), 2u);
  EXPECT_EQ(notices.items()[0].to, Rank{0});
  FailureCoordinator other(Rank{0}, kSize, names_);
  other.on_notice(kMe, notices.items()[0].message);
  EXPECT_EQ(ranks(settled(other)), (Ranks{Rank{2}, Rank{3}}));
  EXPECT_EQ(notices.items()[1].to, Rank{2});
  FailureCoordinator accused(Rank{2}, kSize, names_);
  accused.on_notice(kMe, notices.items()[1].message);
  EXPECT_EQ(ranks(settled(accused)), Ranks{Rank{3}});
}

TEST_F(FailureCoordinatorTest, RankDeclaredLost_isAtFault_andNotifiesAllOthers) {
  failures_.on_peer_failure(lost_by(device::Blame::self, Rank{2}));
  protocol::Outbox notices;
  ASSERT_TRUE(failures_.settle(notices));
  EXPECT_EQ(ranks(failures_.status()), Ranks{kMe});
  EXPECT_EQ(notices.items().size(), kSize - 1);
}

TEST_F(FailureCoordinatorTest, PathThatLosesLongPackets_hasBothEndsAtFault) {
  failures_.on_peer_failure(lost(Rank{2}, 1468));
  EXPECT_EQ(ranks(settled(failures_)), (Ranks{kMe, Rank{2}}));
}

/// The ranks to which a coordinator reports the failure.
Ranks told(FailureCoordinator& failures) {
  protocol::Outbox notices;
  const bool any = failures.settle(notices);
  EXPECT_EQ(any, !notices.empty());
  Ranks ranks;
  for (const auto& item : notices.items()) ranks.push_back(item.to);
  return ranks;
}

TEST_F(FailureCoordinatorTest, RankThatFindsAPeerLost_notifiesAllRemainingRanks) {
  failures_.on_peer_failure(lost(Rank{2}));
  EXPECT_EQ(told(failures_), (Ranks{Rank{0}, Rank{3}}));
}

// The lost rank gets a notice too, because it may be alive. Perhaps only its path to the reporting
// rank is broken.
TEST_F(FailureCoordinatorTest, NoticeOfALostNeighbour_isSentToThatNeighbourToo) {
  failures_.on_notice(Rank{3}, notice(2));
  EXPECT_EQ(told(failures_), (Ranks{Rank{0}, Rank{2}}));
}

// The rank that found the failure may be unable to reach every rank. Each rank therefore passes the
// notice on to its neighbours.
TEST_F(FailureCoordinatorTest, NoticeFromOneNeighbour_isPassedOnToTheOtherNeighbour) {
  failures_.on_notice(Rank{0}, notice(3));
  EXPECT_EQ(told(failures_), Ranks{Rank{2}});
}

TEST_F(FailureCoordinatorTest, NoticeOfTheLossOfThisRank_putsThisRankAtFault) {
  failures_.on_notice(Rank{0}, notice(1));
  EXPECT_EQ(ranks(settled(failures_)), Ranks{kMe});
}

TEST_F(FailureCoordinatorTest, NoticeOfAnAbort_isPassedOn_butNotSentBack) {
  FailureCoordinator peer(Rank{2}, kSize, names_);
  peer.abort("enough");
  protocol::Outbox notices;
  ASSERT_TRUE(peer.settle(notices));
  failures_.on_notice(Rank{3}, notices.items().front().message);
  EXPECT_EQ(told(failures_), Ranks{Rank{0}});
  EXPECT_EQ(ranks(failures_.status()), Ranks{Rank{2}});
}

TEST_F(FailureCoordinatorTest, NoticeOfALostRank_putsOnlyTheLostRankAtFault) {
  failures_.on_notice(Rank{0}, notice(3));
  EXPECT_EQ(ranks(settled(failures_)), Ranks{Rank{3}});
}

TEST_F(FailureCoordinatorTest, NoticeOfAPathThatLosesLongPackets_namesBothEnds) {
  failures_.on_notice(Rank{0}, notice_of(Rank{0}, Rank{3}, 1468));
  EXPECT_EQ(ranks(settled(failures_)), (Ranks{Rank{0}, Rank{3}}));
}

TEST_F(FailureCoordinatorTest, PassedOnNotice_ofALossyPath_namesOnlyItsTwoEnds) {
  failures_.on_notice(Rank{0}, notice_of(Rank{3}, Rank{2}, 1468));
  protocol::Outbox notices;
  ASSERT_TRUE(failures_.settle(notices));
  FailureCoordinator end(Rank{2}, kSize, names_);
  end.on_notice(kMe, notices.items().front().message);
  EXPECT_EQ(ranks(settled(end)), (Ranks{Rank{3}, Rank{2}}));
}

TEST_F(FailureCoordinatorTest, NoticeThatNamesAnInvalidReporter_isIgnored) {
  failures_.on_notice(Rank{0}, notice_of(rank_of(kSize), Rank{3}, 1468));
  EXPECT_FALSE(failures_.noted());
}

TEST_F(FailureCoordinatorTest, NoticeWhoseCulpritsAreNoRanksOfTheJob_isIgnored) {
  const RankNames whole;  // the communicator is the job
  using Case = std::pair<const RankNames*, std::uint32_t>;
  for (const auto& [names, size] : {Case{&names_, kJobSize}, Case{&whole, kSize}}) {
    const std::uint64_t valid = size - 1;
    FailureCoordinator failures(kMe, kSize, *names);
    for (const std::uint64_t none : {std::uint64_t{size}, std::uint64_t{UINT32_MAX}}) {
      failures.on_notice(Rank{0}, notice((valid << 32) | none, protocol::kEither));
      failures.on_notice(Rank{0}, notice((none << 32) | valid, protocol::kEither));
    }
    failures.on_notice(Rank{0}, notice((valid + 2) << 32));
    EXPECT_FALSE(failures.noted()) << "job of " << size << " ranks";
    failures.on_notice(Rank{0}, notice((valid << 32) | valid, protocol::kEither));
    EXPECT_TRUE(failures.noted()) << "job of " << size << " ranks";
  }
}

TEST_F(FailureCoordinatorTest, Subset_ofAJobOfUnknownSize_acceptsAnyCulprit) {
  const RankNames members({}, {Rank{4}, Rank{5}, Rank{6}, Rank{7}});
  FailureCoordinator subset(kMe, kSize, members);
  subset.on_notice(Rank{0}, notice(std::uint64_t{kJobSize + 1} << 32));
  EXPECT_EQ(ranks(settled(subset)), Ranks{rank_of(kJobSize)});
}

TEST_F(FailureCoordinatorTest, NonMember_namedInANotice_isAtFault) {
  failures_.on_notice(Rank{0}, notice(std::uint64_t{18} << 32));
  EXPECT_EQ(ranks(settled(failures_)), Ranks{Rank{17}});
}

TEST_F(FailureCoordinatorTest, DifferentSizesAtTwoRanks_putBothRanksAtFault) {
  failures_.fail_with_other_sizes(Rank{3}, 100);
  EXPECT_EQ(ranks(settled(failures_)), (Ranks{Rank{3}, kMe}));
}

TEST_F(FailureCoordinatorTest, Abort_hasThisRankAtFault) {
  failures_.abort("enough");
  EXPECT_EQ(ranks(settled(failures_)), Ranks{kMe});
}

TEST_F(FailureCoordinatorTest,
       FailureOfAnotherCommunicator_isReportedToThePeers_withTheRanksAtFault) {
  for (const Ranks& culprits : {Ranks{Rank{17}}, Ranks{Rank{17}, Rank{18}}}) {
    FailureCoordinator failures(kMe, kSize, names_);
    failures.fail_because(Status(Code::peer_failed, "a rank is lost", culprits));
    protocol::Outbox notices;
    ASSERT_TRUE(failures.settle(notices));
    EXPECT_EQ(ranks(failures.status()), culprits);
    ASSERT_EQ(notices.items().size(), kSize - 1);
    FailureCoordinator peer(Rank{0}, kSize, names_);
    peer.on_notice(kMe, notices.items().front().message);
    EXPECT_EQ(ranks(settled(peer)), culprits);
  }
}

TEST_F(FailureCoordinatorTest, LossOfAnAggregator_isPassedOnWithoutARankAtFault) {
  failures_.fail_because(Status(Code::peer_failed, "aggregator h:1 does not answer"));
  protocol::Outbox notices;
  ASSERT_TRUE(failures_.settle(notices));
  EXPECT_EQ(notices.items().size(), kSize - 1);
  FailureCoordinator peer(Rank{0}, kSize, names_);
  peer.on_notice(kMe, notices.items().front().message);
  protocol::Outbox passed_on;
  ASSERT_TRUE(peer.settle(passed_on));
  EXPECT_EQ(passed_on.items().front().to, Rank{3});
  // Rank 0 also passes the failure to the communicator's other routes, and rank 3 learns it there.
  FailureCoordinator other_route(Rank{0}, kSize, names_);
  other_route.fail_because(peer.status());
  ASSERT_TRUE(other_route.settle(notices));
  for (const auto* list : {&passed_on, &notices}) {
    FailureCoordinator last(Rank{3}, kSize, names_);
    last.on_notice(Rank{0}, list->items().front().message);
    const Status& status = settled(last);
    EXPECT_EQ(ranks(status), Ranks{}) << status.to_string();
    EXPECT_NE(status.message().find("loss of an aggregator"), std::string::npos)
        << status.to_string();
  }
}

TEST_F(FailureCoordinatorTest, Status_untilTheFailureEndsTheCollectives_isOk) {
  failures_.abort("enough");
  EXPECT_TRUE(failures_.status());
  EXPECT_FALSE(settled(failures_));
}

TEST_F(FailureCoordinatorTest, SideCommunicator_namesALostRankByItsJobRank) {
  const RankNames members({}, {Rank{4}, Rank{5}, Rank{6}, Rank{7}});
  FailureCoordinator side(kMe, kSize, members);
  side.on_peer_failure(lost(Rank{2}));
  EXPECT_EQ(ranks(settled(side)), Ranks{Rank{6}});
}

}  // namespace
}  // namespace tutti::engine
