// Tests how a communicator ends: the query of its failure, and what a failure or a wait that timed
// out leaves behind.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "communicator_ranks.hpp"
#include "runtime/bootstrap/local_bootstrap.hpp"
#include "tutti/communicator.hpp"

namespace tutti {
namespace {

using namespace test;

// A Barrier that is done at one rank may not be done at another, where an abort would end it. The
// ranks therefore also meet at a barrier of threads, `ready`, before one of them ends.

using std::chrono::milliseconds;
using Numbers = std::vector<std::uint32_t>;

/// A flag that one rank sets and the others wait for.
class Signal {
 public:
  void set() {
    flag_ = true;
    flag_.notify_all();
  }
  void wait() const { flag_.wait(false); }

 private:
  std::atomic<bool> flag_{false};
};

/// Asks for the status until it is an error, without a call in flight.
Status await_failure(const Communicator& communicator) {
  const auto give_up = std::chrono::steady_clock::now() + kLong;
  Status status = communicator.status();
  while (status && std::chrono::steady_clock::now() < give_up) {
    std::this_thread::sleep_for(milliseconds(1));
    status = communicator.status();
  }
  return status;
}

// ---- status -------------------------------------------------------------------------------------

TEST(CommunicatorEnd, Status_peerAbortsWhileNoCallIsInFlight_isTheFirstFailure) {
  std::barrier ready(3);
  on_ranks(3, patient(), [&](Communicator& communicator) {
    finish(communicator.barrier());
    EXPECT_TRUE(communicator.status()) << communicator.status().to_string();
    ready.arrive_and_wait();
    if (communicator.rank() == Rank{1}) communicator.abort("had enough");
    const Status status = await_failure(communicator);
    EXPECT_EQ(status.code(), communicator.rank() == Rank{1} ? Code::aborted : Code::peer_failed);
    EXPECT_EQ(ranks_of(status), Numbers{1}) << status.to_string();
    // A later call fails at once with the first failure, and the failure does not change.
    auto later = communicator.barrier();
    ASSERT_FALSE(later.ok());
    EXPECT_EQ(later.status().code(), status.code());
    EXPECT_EQ(ranks_of(later.status()), Numbers{1});
    EXPECT_NE(later.status().message().find(status.message()), std::string::npos);
    EXPECT_EQ(communicator.status().message(), status.message());
  });
}

TEST(CommunicatorEnd, PreparedCall_afterAFailure_failsWithTheFirstFailure) {
  std::barrier ready(2);
  on_ranks(2, patient(), [&](Communicator& communicator) {
    auto prepared = communicator.prepare({.collective = Collective::barrier});
    ASSERT_TRUE(prepared.ok()) << prepared.status().to_string();
    finish(communicator.barrier());
    ready.arrive_and_wait();
    if (communicator.rank() == Rank{0}) communicator.abort("had enough");
    const Status status = await_failure(communicator);
    auto run = prepared->start();
    ASSERT_FALSE(run.ok());
    EXPECT_EQ(run.status().code(), status.code());
    EXPECT_EQ(ranks_of(run.status()), Numbers{0});
  });
}

// ---- a wait that times out ----------------------------------------------------------------------

TEST(CommunicatorEnd, WaitThatTimesOut_leavesTheCallInFlightAndTheCommunicatorUsable) {
  Signal timed_out;
  on_ranks(2, patient(), [&](Communicator& communicator) {
    Bytes buffer = communicator.rank() == Rank{1} ? pattern(5'003, 1) : Bytes(5'003);
    if (communicator.rank() == Rank{1}) {
      timed_out.wait();
      finish(communicator.broadcast(buffer, Rank{1}));
      finish(communicator.barrier());
      return;
    }
    auto late = communicator.broadcast(buffer, Rank{1});
    ASSERT_TRUE(late.ok());
    EXPECT_EQ(late->wait_for(milliseconds(5)).code(), Code::timeout);
    EXPECT_TRUE(communicator.status()) << communicator.status().to_string();
    EXPECT_FALSE(late->progress().done);
    auto next = communicator.barrier();
    timed_out.set();
    finish(std::move(next));
    finish(std::move(late));
    EXPECT_EQ(buffer, pattern(5'003, 1));
  });
}

}  // namespace
}  // namespace tutti
