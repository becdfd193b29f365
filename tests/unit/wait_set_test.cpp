// Tests waiting for all or for any of several requests. The requests belong to one communicator, to
// duplicates that share one engine, or to communicators that have an engine each.
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "communicator_ranks.hpp"

namespace tutti {
namespace {

using namespace test;

constexpr Rank kZero{0};
constexpr Rank kOne{1};
constexpr Nanoseconds kShort = std::chrono::milliseconds(20);

/// The other communicator of a test: a duplicate, or one of the same ranks with its own engine.
enum class Other { duplicate, independent };

class WaitSet : public testing::TestWithParam<Other> {
 protected:
  using Body = std::function<void(Communicator& first, Communicator& second)>;

  void on_two_ranks(const Body& body) {
    const auto bootstraps = runtime::make_local_bootstraps(2);
    on_ranks(2, patient(), [&](Communicator& first) {
      auto second =
          GetParam() == Other::duplicate
              ? first.duplicate(patient())
              : runtime::create_communicator(*bootstraps[index(first.rank())], patient(), nullptr);
      ASSERT_TRUE(second.ok()) << second.status().to_string();
      body(first, *second);
      finish(first.barrier());
      finish(second->barrier());
    });
  }
};

TEST_P(WaitSet, CallThatEndsFirst_isTheOneReturned) {
  on_two_ranks([](Communicator& first, Communicator& second) {
    std::array<Bytes, 3> buffers{Bytes(8), Bytes(8), Bytes(8)};
    if (first.rank() == kZero) {
      std::vector<Request> requests{begun(first.receive(buffers[0], kOne, 0)),
                                    begun(first.receive(buffers[1], kOne, 1)), Request(),
                                    begun(second.receive(buffers[2], kOne, 2))};
      for (const std::size_t expected : {3u, 0u, 1u}) {
        EXPECT_EQ(Request::wait_any(requests, kShort).status().code(), Code::timeout);
        finish(first.barrier());  // after this barrier rank 1 sends the next message
        const auto done = Request::wait_any(requests, kLong);
        ASSERT_TRUE(done.ok()) << done.status().to_string();
        EXPECT_EQ(*done, expected);
        EXPECT_TRUE(requests[*done].wait().ok());
        requests[*done] = Request();
      }
      EXPECT_EQ(Request::wait_any(requests).status().code(), Code::invalid_argument);
    } else {
      finish(first.barrier());
      finish(second.send(buffers[2], kZero, 2));
      finish(first.barrier());
      finish(first.send(buffers[0], kZero, 0));
      finish(first.barrier());
      finish(first.send(buffers[1], kZero, 1));
    }
  });
}

TEST_P(WaitSet, CallsOfTwoCommunicators_areAllWaitedFor) {
  on_two_ranks([](Communicator& first, Communicator& second) {
    constexpr std::size_t kBlock = 50'000;
    const Bytes own = pattern(kBlock, index(first.rank()));
    Bytes all(2 * kBlock), other(2 * kBlock);
    std::vector<Request> requests{begun(first.allgather(own, all)), Request(),
                                  begun(second.allgather(own, other)), begun(first.barrier())};
    const Status status = Request::wait_all(requests);
    EXPECT_TRUE(status.ok()) << status.to_string();
    for (Request& one : requests) EXPECT_TRUE(one.test());
    expect_blocks(all, kBlock, 2);
    expect_blocks(other, kBlock, 2);
  });
}

TEST_P(WaitSet, FailureAmongTheCalls_isReturnedOnceAllAreDone) {
  on_two_ranks([](Communicator& first, Communicator& second) {
    Bytes message(100);
    if (first.rank() == kZero) {
      Bytes room(10);
      std::vector<Request> requests{begun(second.barrier()), begun(first.receive(room, kOne, 1))};
      Status status = Request::wait_all(requests, kShort);
      EXPECT_EQ(status.code(), Code::timeout);
      EXPECT_NE(status.message().find("2 of 2 calls"), std::string::npos) << status.message();
      finish(first.barrier());
      status = Request::wait_all(requests, kLong);
      EXPECT_EQ(status.code(), Code::invalid_argument) << status.to_string();
      EXPECT_TRUE(requests[0].wait().ok());
    } else {
      finish(first.barrier());
      (void)first.send(message, kZero, 1)->wait();
      finish(second.barrier());
    }
  });
}

TEST_P(WaitSet, CallbackThatWaitsForAnyCall_isRefused) {
  on_two_ranks([](Communicator& first, Communicator&) {
    Bytes buffer(1);
    Request receive = begun(first.receive(buffer, first.rank(), 9));
    Request barrier = begun(first.barrier());
    Code refused = Code::ok;
    const auto set = first.on_completion(barrier, [&](const Status&) {
      refused = Request::wait_any({&receive, 1}, kShort).status().code();
    });
    EXPECT_TRUE(set.ok());
    EXPECT_TRUE(barrier.wait().ok());
    // By now the callback has run, in this thread or in the thread that ended the barrier.
    EXPECT_EQ(refused, Code::invalid_argument);
    EXPECT_TRUE(receive.cancel().ok());
    EXPECT_EQ(receive.wait().code(), Code::aborted);
  });
}

INSTANTIATE_TEST_SUITE_P(Engines, WaitSet, testing::Values(Other::duplicate, Other::independent),
                         [](const auto& one) {
                           return one.param == Other::duplicate ? "One" : "Two";
                         });

}  // namespace
}  // namespace tutti
