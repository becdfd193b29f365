// Tests calls with a priority: their results are right, and an unknown priority is refused. No call
// waits for another call that some ranks have not begun yet.
#include <gtest/gtest.h>

#include <vector>

#include "communicator_ranks.hpp"

namespace tutti {
namespace {

using namespace test;

constexpr std::size_t kBlockBytes = 1 << 20;

/// An Allgather of one rank with its buffers.
struct Gather {
  Gather(const Communicator& of, const CollectiveOptions& options)
      : own(pattern(kBlockBytes, index(of.rank()))),
        all(kBlockBytes * of.size()),
        call{.collective = Collective::allgather, .send = own, .receive = all, .options = options} {
  }

  void expect_result() const {
    for (std::size_t r = 0; r < all.size() / kBlockBytes; ++r) {
      const Bytes expected = pattern(kBlockBytes, r);
      EXPECT_TRUE(std::equal(expected.begin(), expected.end(), all.begin() + r * kBlockBytes));
    }
  }

  Bytes own, all;
  CollectiveCall call;
};

TEST(CallPriority, HighPriorityCall_startedLateByOneRank_doesNotDelayALowPriorityCall) {
  for (const Algorithm algorithm : {Algorithm::multicast, Algorithm::ring}) {
    on_ranks(2, patient(), [&](Communicator& first) {
      auto second = first.duplicate();
      ASSERT_TRUE(second.ok()) << second.status().to_string();
      Gather low(first, {.algorithm = algorithm, .priority = Priority::low});
      Gather high(*second, {.algorithm = algorithm, .priority = Priority::high});
      Request waits = begun(first.start(low.call));
      if (first.rank() == rank_of(0)) {
        Request urgent = begun(second->start(high.call));
        EXPECT_TRUE(waits.wait_for(kLong).ok());
        EXPECT_TRUE(urgent.wait_for(kLong).ok());
      } else {
        EXPECT_TRUE(waits.wait_for(kLong).ok());
        finish(second->start(high.call));
      }
      low.expect_result();
      high.expect_result();
    });
  }
}

TEST(CallPriority, PriorityThatDiffersBetweenRanks_isAllowed_alsoInPreparedCalls) {
  on_ranks(3, patient(), [](Communicator& communicator) {
    const auto priority = static_cast<Priority>(static_cast<int>(index(communicator.rank())) - 1);
    Gather gather(communicator, {.algorithm = Algorithm::ring, .priority = priority});
    auto prepared = communicator.prepare(gather.call);
    ASSERT_TRUE(prepared.ok()) << prepared.status().to_string();
    finish(prepared->start());
    gather.expect_result();
  });
}

TEST(CallPriority, UnknownPriority_isRefused) {
  on_ranks(2, patient(), [](Communicator& communicator) {
    const auto unknown = static_cast<Priority>(5);
    const auto barrier = communicator.barrier({.priority = unknown});
    ASSERT_EQ(barrier.status().code(), Code::invalid_argument);
    EXPECT_NE(barrier.status().message().find("priority 5 does not exist: use low"),
              std::string::npos);
    Bytes note(8);
    const Rank other = rank_of(1 - index(communicator.rank()));
    EXPECT_EQ(communicator.send(note, other, 0, {.priority = unknown}).status().code(),
              Code::invalid_argument);
    finish(communicator.barrier());
  });
}

TEST(CallPriority, MessagesOfEachPriority_arrive) {
  on_ranks(2, patient(), [](Communicator& communicator) {
    const Rank other = rank_of(1 - index(communicator.rank()));
    for (const Priority priority : {Priority::low, Priority::normal, Priority::high}) {
      for (const std::size_t bytes : {std::size_t{100}, kBlockBytes}) {
        const Bytes own = pattern(bytes, index(communicator.rank()));
        Bytes received(bytes);
        Request sent = begun(communicator.send(own, other, 1, {.priority = priority}));
        finish(communicator.receive(received, other, 1, {.priority = priority}));
        EXPECT_TRUE(sent.wait_for(kLong).ok());
        EXPECT_EQ(received, pattern(bytes, index(other)));
      }
    }
  });
}

}  // namespace
}  // namespace tutti
