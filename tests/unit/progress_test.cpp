// Threads that share the engine: a thread that waits in a collective yields to one that reads
// counters or aborts. These tests hang if it does not.
#include "runtime/progress/progress.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <optional>
#include <thread>

#include "runtime/bootstrap/local_bootstrap.hpp"
#include "tutti/communicator.hpp"

namespace tutti {
namespace {

constexpr Nanoseconds kLong = std::chrono::seconds(60);

CommunicatorOptions patient() {
  CommunicatorOptions options;
  options.peer_timeout = kLong;
  options.create_timeout = kLong;
  return options;
}

/// Two ranks of which the first waits in a barrier that the second has not entered.
class HalfABarrier {
 public:
  HalfABarrier() {
    auto bootstraps = runtime::make_local_bootstraps(2);
    std::thread other([&] { second_ = create(*bootstraps[1]); });
    first_ = create(*bootstraps[0]);
    other.join();
    waiter_ = std::thread([this] { first_status_ = call(*first_); });
    while (counters_of(*first_)["collectives_started"] == started_before_)
      std::this_thread::yield();
  }
  ~HalfABarrier() {
    if (waiter_.joinable()) waiter_.join();
  }

  Communicator& first() { return *first_; }
  /// Enters the barrier at the second rank, too, and returns the status of both.
  std::pair<Status, Status> finish() {
    const Status second = call(*second_);
    waiter_.join();
    return {first_status_, second};
  }

  /// Enters another barrier at the second rank alone.
  Status call_second() { return call(*second_); }

  static std::map<std::string, std::uint64_t> counters_of(const Communicator& communicator) {
    const auto list = communicator.counters();
    return {list.begin(), list.end()};
  }

 private:
  std::optional<Communicator> create(runtime::Bootstrap& bootstrap) {
    auto communicator = Communicator::create(bootstrap, patient());
    EXPECT_TRUE(communicator.ok()) << communicator.status().to_string();
    if (index(bootstrap.rank()) == 0) {
      started_before_ = counters_of(*communicator)["collectives_started"];
    }
    return std::move(*communicator);
  }
  static Status call(Communicator& communicator) {
    auto request = communicator.barrier({.will_wait = true});
    return request ? request->wait_for(kLong) : request.status();
  }

  std::optional<Communicator> first_;
  std::optional<Communicator> second_;
  std::uint64_t started_before_ = 0;
  Status first_status_;
  std::thread waiter_;
};

TEST(Progress, CountersCanBeReadWhileAThreadWaits) {
  HalfABarrier barrier;
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(HalfABarrier::counters_of(barrier.first())["collectives_failed"], 0u);
    EXPECT_FALSE(barrier.first().flight_record().empty());
  }
  const auto [first, second] = barrier.finish();
  EXPECT_TRUE(first) << first.to_string();
  EXPECT_TRUE(second) << second.to_string();
}

TEST(Progress, AbortEndsTheWaitOfAnotherThread) {
  HalfABarrier barrier;
  barrier.first().abort("the operator asked for it");
  auto [first, second] = barrier.finish();
  EXPECT_EQ(first.code(), Code::aborted) << first.to_string();
  EXPECT_NE(first.message().find("the operator asked for it"), std::string::npos);
  // The rank had entered, and a barrier promises no more.
  if (second) second = barrier.call_second();
  EXPECT_FALSE(second) << "the peer must hear of it";
  EXPECT_NE(second.message().find("rank 0"), std::string::npos) << second.to_string();
}

}  // namespace
}  // namespace tutti
