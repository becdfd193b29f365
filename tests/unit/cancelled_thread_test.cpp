// Tests that a thread completes its call of the library before pthread_cancel() ends the thread.
// Other calls and the process continue.
#include <gtest/gtest.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <thread>

#include "communicator_ranks.hpp"

namespace tutti {
namespace {

using namespace test;

/// A thread whose cancellation is pending when it calls `body`. The first cancellation point in
/// `body` therefore ends the thread if cancellation is enabled there.
class CancelledThread {
 public:
  explicit CancelledThread(std::function<void()> body) : body_(std::move(body)) {
    EXPECT_EQ(::pthread_create(&thread_, nullptr, run, this), 0);
    EXPECT_EQ(::pthread_cancel(thread_), 0);
    cancelled_.store(true);
  }
  /// Joins the thread. True if `body` returned before the cancellation ended the thread.
  bool completed() {
    void* result = nullptr;
    EXPECT_EQ(::pthread_join(thread_, &result), 0);
    return returned_ && result == PTHREAD_CANCELED;
  }

 private:
  static void* run(void* given) {
    auto& me = *static_cast<CancelledThread*>(given);
    while (!me.cancelled_.load()) {
    }
    me.body_();
    me.returned_ = true;
    ::pthread_testcancel();
    return nullptr;
  }

  std::function<void()> body_;
  std::atomic<bool> cancelled_{false};
  bool returned_ = false;
  pthread_t thread_{};
};

TEST(CancelledThread, Calls_inACancelledThread_completeThere_andAtTheOtherRanks) {
  on_ranks(3, patient(), [](Communicator& communicator) {
    const Bytes own = pattern(200'000, index(communicator.rank()));
    Bytes all(own.size() * 3);
    const auto calls = [&] {
      finish(communicator.allgather(own, all));
      auto request = communicator.allgather(own, all);
      ASSERT_TRUE(request.ok());
      while (!request->test()) {
      }
      EXPECT_TRUE(request->wait().ok());
      auto duplicate = communicator.duplicate(patient());
      ASSERT_TRUE(duplicate.ok()) << duplicate.status().to_string();
      finish(duplicate->barrier());
      EXPECT_FALSE(duplicate->counters().empty());
      EXPECT_FALSE(duplicate->describe().empty());
    };
    if (communicator.rank() == Rank{1}) {
      EXPECT_TRUE(CancelledThread(calls).completed());
    } else {
      calls();
    }
    calls();
    for (std::uint32_t rank = 0; rank < 3; ++rank) {
      const Bytes expected = pattern(own.size(), rank);
      EXPECT_TRUE(std::equal(expected.begin(), expected.end(),
                             all.begin() + static_cast<std::ptrdiff_t>(rank * own.size())));
    }
  });
}

}  // namespace
}  // namespace tutti
