#include "protocol/membership.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace tutti::protocol {
namespace {

TEST(Membership, MembershipOfASingleRankIsComplete) {
  EXPECT_TRUE(Membership(rank_of(0), 1, 4).complete());
}

TEST(Membership, MembershipIsCompleteAfterProbesOfAllRanksOnAllSubgroups) {
  Membership membership(rank_of(1), 4, 2);
  for (const std::uint32_t rank : {0u, 2u, 3u}) {
    EXPECT_FALSE(membership.complete());
    membership.on_probe(rank_of(rank), 0);
    // A repeated probe of subgroup 0 proves nothing about subgroup 1.
    membership.on_probe(rank_of(rank), 0);
    EXPECT_FALSE(membership.complete());
    membership.on_probe(rank_of(rank), 1);
  }
  EXPECT_TRUE(membership.complete());
  EXPECT_TRUE(membership.missing().empty());
}

TEST(Membership, RankWithoutAProbeOnSomeSubgroup_isMissing) {
  Membership membership(rank_of(0), 70, 3);
  for (std::uint32_t rank = 0; rank < 70; ++rank) {
    for (std::uint32_t s = 0; s < 3; ++s) {
      if (rank != 42 && !(rank == 69 && s == 1)) membership.on_probe(rank_of(rank), s);
    }
  }
  EXPECT_FALSE(membership.complete());
  EXPECT_EQ(membership.missing(), (std::vector<Rank>{rank_of(42), rank_of(69)}));
}

TEST(Membership, ProbesOfUnknownRanksOrSubgroups_areIgnored) {
  Membership membership(rank_of(0), 2, 1);
  membership.on_probe(rank_of(0), 0);
  membership.on_probe(rank_of(2), 0);
  membership.on_probe(kNoRank, 0);
  membership.on_probe(rank_of(1), 1);
  EXPECT_FALSE(membership.complete());
  EXPECT_EQ(membership.missing(), (std::vector<Rank>{rank_of(1)}));
}

TEST(Membership, ShortProbe_provesThePath_butNotForLongerDatagrams) {
  Membership membership(rank_of(0), 3, 1, {rank_of(2)}, 1460);
  membership.on_probe(rank_of(1), 0, 1460);
  membership.on_probe(rank_of(2), 0, 972);
  EXPECT_FALSE(membership.heard_all());
  membership.on_unicast_probe(rank_of(2), 552);
  EXPECT_TRUE(membership.heard_all());
  EXPECT_FALSE(membership.complete());
  ASSERT_TRUE(membership.narrowest());
  EXPECT_EQ(membership.narrowest()->source, rank_of(2));
  EXPECT_EQ(membership.narrowest()->bytes, 552u);
  membership.on_unicast_probe(rank_of(2), 1460);
  EXPECT_EQ(membership.narrowest()->bytes, 972u);
  membership.on_probe(rank_of(2), 0, 1460);
  membership.on_probe(rank_of(2), 0, 972);
  EXPECT_TRUE(membership.complete());
  EXPECT_FALSE(membership.narrowest());
}

TEST(Membership, RankWithoutProbes_isReportedAsMissing_notAsANarrowPath) {
  Membership membership(rank_of(0), 3, 1, {}, 1460);
  membership.on_probe(rank_of(1), 0, 1000);
  ASSERT_TRUE(membership.narrowest());
  EXPECT_EQ(membership.narrowest()->source, rank_of(1));
  EXPECT_EQ(membership.missing(), (std::vector<Rank>{rank_of(2)}));
}

TEST(Membership, UnicastProbe_ofARankWhoseUnicastPathIsNotTested_isIgnored) {
  Membership membership(rank_of(0), 4, 0, {rank_of(1)}, 100);
  membership.on_unicast_probe(rank_of(2), 100);
  EXPECT_FALSE(membership.heard_all());
  membership.on_unicast_probe(rank_of(1), 100);
  EXPECT_TRUE(membership.complete());
  EXPECT_TRUE(membership.missing().empty()) << "no rank was to be heard by multicast";
}

}  // namespace
}  // namespace tutti::protocol
