// Tests communicators that are made of some ranks of another communicator.
#include <gtest/gtest.h>

#include <array>
#include <barrier>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "communicator_ranks.hpp"

namespace tutti {
namespace {

using namespace test;

void leave(Communicator& communicator) { finish(communicator.barrier()); }

/// For each rank of `part`, in order, its rank in `whole`; found by an Allgather on `part`.
std::vector<std::uint32_t> members(Communicator& whole, Communicator& part) {
  const std::uint32_t own = index(whole.rank());
  std::vector<std::uint32_t> all(part.size());
  finish(part.allgather(std::as_bytes(std::span(&own, 1)), std::as_writable_bytes(std::span(all))));
  return all;
}

/// The sum of the ranks that the members of `part` have in `whole`; found by an Allreduce on
/// `part`.
std::int32_t sum(Communicator& whole, Communicator& part) {
  const auto own = static_cast<std::int32_t>(index(whole.rank()));
  std::int32_t total = 0;
  finish(part.allreduce(std::as_bytes(std::span(&own, 1)),
                        std::as_writable_bytes(std::span(&total, 1)), {.type = DataType::int32}));
  return total;
}

TEST(Split, RanksOfOneColor_formACommunicatorInOrderOfTheirKeys) {
  on_ranks(7, patient(), [](Communicator& whole) {
    const std::uint32_t me = index(whole.rank());
    auto part = whole.split(me % 3, -static_cast<std::int64_t>(me), patient());
    ASSERT_TRUE(part.ok()) << part.status().to_string();
    ASSERT_TRUE(part->has_value());
    std::vector<std::uint32_t> wanted;
    for (std::uint32_t r = 7; r-- > 0;) {
      if (r % 3 == me % 3) wanted.push_back(r);
    }
    EXPECT_EQ(members(whole, **part), wanted);
    leave(whole);
  });
}

TEST(Split, RanksWithEqualKeys_keepTheirOrder_andARankWithoutAColorIsLeftOut) {
  on_ranks(5, patient(), [](Communicator& whole) {
    const std::uint32_t me = index(whole.rank());
    const auto color = me == 2 ? std::nullopt : std::optional(9u);
    auto part = whole.split(color, 0, patient());
    ASSERT_TRUE(part.ok()) << part.status().to_string();
    ASSERT_EQ(part->has_value(), me != 2);
    if (*part) {
      EXPECT_EQ(members(whole, **part), (std::vector<std::uint32_t>{0, 1, 3, 4}));
    }
    leave(whole);
  });
}

TEST(Split, OverlappingCommunicators_workAtTheSameTime) {
  on_ranks(6, patient(), [](Communicator& whole) {
    const std::uint32_t me = index(whole.rank());
    auto row = whole.split(me / 3, 0, patient());
    ASSERT_TRUE(row.ok() && *row) << row.status().to_string();
    auto column = whole.split(me % 3, 0, patient());
    ASSERT_TRUE(column.ok() && *column) << column.status().to_string();
    const Bytes own = pattern(50'000, me);
    Bytes in_row(3 * own.size());
    Bytes in_column(2 * own.size());
    for (int round = 0; round < 20; ++round) {
      auto first = (*row)->allgather(own, in_row);
      auto second = (*column)->allgather(own, in_column);
      finish(std::move(second));
      finish(std::move(first));
      for (std::uint32_t r = 0; r < 3; ++r) {
        const Bytes block = pattern(own.size(), me / 3 * 3 + r);
        EXPECT_TRUE(std::equal(block.begin(), block.end(), in_row.begin() + r * own.size()));
      }
      const Bytes last = pattern(own.size(), 3 + me % 3);
      EXPECT_TRUE(std::equal(last.begin(), last.end(), in_column.begin() + own.size()));
    }
    EXPECT_EQ(sum(whole, **row), me < 3 ? 3 : 12);
    leave(whole);
  });
}

TEST(Split, SubsetOfASplit_hasItsOwnRanks_andErrorsNameRanksOfTheJob) {
  std::barrier gathered(2);
  on_ranks(4, patient(), [&](Communicator& whole) {
    const std::uint32_t me = index(whole.rank());
    auto upper = whole.split(me == 0 ? std::nullopt : std::optional(1u), 0, patient());
    ASSERT_TRUE(upper.ok()) << upper.status().to_string();
    if (*upper) {
      const std::array last_two{Rank{2}, Rank{1}};
      auto pair = (*upper)->subset(last_two, patient());
      ASSERT_TRUE(pair.ok()) << pair.status().to_string();
      ASSERT_EQ(pair->has_value(), me >= 2);
      if (*pair) {
        EXPECT_EQ(members(whole, **pair), (std::vector<std::uint32_t>{3, 2}));
        // The Allgather of members() may still run at rank 2 when it has ended at rank 3. Rank 3
        // must therefore not abort before both have finished it.
        gathered.arrive_and_wait();
        if (me == 3) (*pair)->abort("test");
        const Status status = [&] {
          auto request = (*pair)->barrier();
          return request ? request->wait_for(kLong) : request.status();
        }();
        EXPECT_EQ(ranks_of(status), std::vector<std::uint32_t>{3}) << status.to_string();
      }
    }
    leave(whole);  // the failed communicator of two ranks must not affect `whole`
  });
}

/// Rank 0 gives up `make` while rank 1 does not call it. Both ranks must learn the cause.
void expect_abort(const std::function<Status(Communicator&, const CommunicatorOptions&)>& make) {
  std::barrier<> given_up(2);
  on_ranks(2, patient(), [&](Communicator& whole) {
    const bool late = whole.rank() == Rank{1};
    if (late) given_up.arrive_and_wait();
    CommunicatorOptions options = patient();
    if (!late) options.create_timeout = std::chrono::milliseconds(50);
    const Status status = make(whole, options);
    EXPECT_EQ(status.code(), late ? Code::peer_failed : Code::timeout) << status.to_string();
    if (!late) {
      EXPECT_EQ(whole.status().code(), Code::aborted) << whole.status().to_string();
      EXPECT_NE(whole.status().message().find("raise create_timeout"), std::string::npos)
          << whole.status().to_string();
      given_up.arrive_and_wait();
    }
    EXPECT_EQ(ranks_of(whole.status()), std::vector<std::uint32_t>{0});
  });
}

TEST(Split, SplitThatTimesOut_abortsTheCommunicator) {
  expect_abort([](Communicator& whole, const CommunicatorOptions& options) {
    return whole.split(0, 0, options).status();
  });
}

TEST(Split, DuplicateThatTimesOut_abortsTheCommunicator) {
  expect_abort([](Communicator& whole, const CommunicatorOptions& options) {
    return whole.duplicate(options).status();
  });
}

/// Rank 1 passes `wrong` options to a duplicate. It must get `code`, and the others an error that
/// names rank 1; then `whole` must still work.
void expect_refused_at_rank_1(const CommunicatorOptions& wrong, Code code) {
  on_ranks(3, patient(), [&](Communicator& whole) {
    const bool faulty = whole.rank() == Rank{1};
    const Status status = whole.duplicate(faulty ? wrong : patient()).status();
    EXPECT_EQ(status.code(), faulty ? code : Code::peer_failed) << status.to_string();
    if (!faulty) {
      EXPECT_EQ(ranks_of(status), std::vector<std::uint32_t>{1});
      EXPECT_NE(status.message().find("rank 1 has given up the creation"), std::string::npos)
          << status.to_string();
    }
    EXPECT_TRUE(whole.status().ok()) << whole.status().to_string();
    // An Allgather of 8 bytes a rank has the header of an exchange of a bootstrap.
    const std::uint64_t own = 100 + index(whole.rank());
    std::vector<std::uint64_t> all(3);
    finish(
        whole.allgather(std::as_bytes(std::span(&own, 1)), std::as_writable_bytes(std::span(all))));
    EXPECT_EQ(all, (std::vector<std::uint64_t>{100, 101, 102}));
    auto second = whole.duplicate(patient());
    ASSERT_TRUE(second.ok()) << second.status().to_string();
    EXPECT_EQ(members(whole, *second), (std::vector<std::uint32_t>{0, 1, 2}));
    leave(whole);
  });
}

TEST(Split, DuplicateWithAWrongOptionAtOneRank_failsAtEveryRank_andTheParentWorks) {
  CommunicatorOptions wrong = patient();
  wrong.subgroups = 0;
  expect_refused_at_rank_1(wrong, Code::invalid_argument);
  wrong = patient();
  wrong.device_name = "no such device";
  expect_refused_at_rank_1(wrong, Code::invalid_argument);
}

TEST(Split, CompletionCallback_mayNotMakeACommunicator) {
  on_ranks(2, patient(), [](Communicator& whole) {
    Status made;
    Request request = begun(whole.barrier());
    ASSERT_TRUE(
        whole.on_completion(request, [&](const Status&) { made = whole.duplicate().status(); })
            .ok());
    ASSERT_TRUE(request.wait_for(kLong).ok());
    EXPECT_EQ(made.code(), Code::invalid_argument) << made.to_string();
    EXPECT_NE(made.message().find("completion callback makes a communicator"), std::string::npos);
    leave(whole);
  });
}

TEST(Subset, DisjointRankLists_atTheSameTime_formCommunicatorsWithRanksInListOrder) {
  on_ranks(5, patient(), [](Communicator& whole) {
    const std::uint32_t me = index(whole.rank());
    const std::vector<Rank> named =
        me == 1 || me == 4 ? std::vector{Rank{4}, Rank{1}} : std::vector{Rank{0}, Rank{3}, Rank{2}};
    auto part = whole.subset(named, patient());
    ASSERT_TRUE(part.ok() && *part) << part.status().to_string();
    EXPECT_EQ(members(whole, **part), me == 1 || me == 4 ? (std::vector<std::uint32_t>{4, 1})
                                                         : (std::vector<std::uint32_t>{0, 3, 2}));
    leave(whole);
  });
}

TEST(Subset, RanksThatListDifferentRanks_areRefused_andTheCommunicatorStaysUsable) {
  on_ranks(3, patient(), [](Communicator& whole) {
    const std::uint32_t me = index(whole.rank());
    const std::vector<Rank> named =
        me == 2 ? std::vector{Rank{0}, Rank{2}} : std::vector{Rank{0}, Rank{1}, Rank{2}};
    auto part = whole.subset(named, patient());
    EXPECT_EQ(part.status().code(), Code::invalid_argument) << part.status().to_string();
    EXPECT_NE(part.status().message().find("did not pass the same list of ranks"),
              std::string::npos)
        << part.status().message();
    leave(whole);
  });
}

TEST(Subset, InvalidListAtOneRank_failsAtRanksThatNameIt_andTheParentWorks) {
  on_ranks(4, patient(), [](Communicator& whole) {
    const std::uint32_t me = index(whole.rank());
    const std::vector<Rank> named = me == 1   ? std::vector{Rank{0}, Rank{1}, Rank{1}}
                                    : me == 3 ? std::vector{Rank{3}}
                                              : std::vector{Rank{0}, Rank{1}, Rank{2}};
    auto part = whole.subset(named, patient());
    if (me == 3) {
      ASSERT_TRUE(part.ok() && *part) << part.status().to_string();
      EXPECT_EQ((*part)->size(), 1u);
    } else {
      EXPECT_EQ(part.status().code(), Code::invalid_argument) << part.status().to_string();
      const char* const text = me == 1 ? "rank 1 is named twice" : "rank 1 did not pass the same";
      EXPECT_NE(part.status().message().find(text), std::string::npos) << part.status().to_string();
    }
    EXPECT_TRUE(whole.status().ok()) << whole.status().to_string();
    EXPECT_EQ(sum(whole, whole), 6);
    leave(whole);
  });
}

TEST(Subset, InvalidRankLists_areRefused) {
  on_ranks(1, patient(), [](Communicator& whole) {
    EXPECT_FALSE(whole.subset({}).ok());
    const std::array outside{Rank{0}, Rank{1}};
    EXPECT_NE(whole.subset(outside).status().message().find("rank 1 is not one of the 1 ranks"),
              std::string::npos);
    const std::array twice{Rank{0}, Rank{0}};
    EXPECT_NE(whole.subset(twice).status().message().find("named twice"), std::string::npos);
  });
}

}  // namespace
}  // namespace tutti
