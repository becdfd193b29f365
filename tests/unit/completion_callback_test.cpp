// Tests completion callbacks that set callbacks, own their request, or belong to another
// communicator.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <barrier>
#include <filesystem>
#include <future>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "communicator_ranks.hpp"
#include "runtime/communicator/create.hpp"
#include "runtime/progress/clock.hpp"

namespace tutti {
namespace {

using namespace test;

/// Two ranks in one thread. A collective ends at rank 0 only after this thread has called it at
/// rank 1 too.
struct Pair {
  Pair() {
    auto bootstraps = runtime::make_local_bootstraps(2);
    std::thread other([&] { one = create(*bootstraps[1]); });
    zero = create(*bootstraps[0]);
    other.join();
  }
  ~Pair() {
    std::thread other([&] { one.reset(); });
    zero.reset();
    other.join();
  }

  static std::optional<Communicator> create(runtime::Bootstrap& bootstrap) {
    auto made = runtime::create_communicator(bootstrap, patient());
    EXPECT_TRUE(made.ok()) << made.status().to_string();
    return std::move(*made);
  }

  std::optional<Communicator> zero;
  std::optional<Communicator> one;
};

Request begin(Communicator& communicator) {
  auto request = communicator.barrier();
  EXPECT_TRUE(request.ok()) << request.status().to_string();
  return *request;
}

std::size_t threads() {
  return static_cast<std::size_t>(
      std::distance(std::filesystem::directory_iterator("/proc/self/task"), {}));
}

TEST(CompletionCallback, OnCompletion_inTheCallbackOfTheSameRequest_runsTheNewCallback) {
  Pair pair;
  Request request = begin(*pair.zero);
  int first = 0;
  int second = 0;
  const auto once_more = [&, kept = std::string(100, 'x')](const Status&) {
    ++first;
    EXPECT_TRUE(pair.zero->on_completion(request, [&](const Status&) { ++second; }));
    EXPECT_EQ(kept, std::string(100, 'x')) << "a callback that runs must not be destroyed";
  };
  ASSERT_TRUE(pair.zero->on_completion(request, once_more));
  finish(begin(*pair.one));
  EXPECT_TRUE(request.wait_for(kLong));
  EXPECT_EQ(first, 1);
  EXPECT_EQ(second, 1);
}

TEST(CompletionCallback, CallbackThatOwnsItsRequest_isDestroyedOnceItHasRun) {
  Pair pair;
  Request request = begin(*pair.zero);
  auto token = std::make_shared<int>();
  const std::weak_ptr<int> watched = token;
  ASSERT_TRUE(
      pair.zero->on_completion(request, [token = std::move(token), request](const Status&) {}));
  finish(begin(*pair.one));
  EXPECT_TRUE(request.wait_for(kLong));
  EXPECT_TRUE(watched.expired());
}

TEST(CompletionCallback, CallbackThatOwnsTheLastRequest_closesTheCommunicator) {
  // With the first thread of a program, ThreadSanitizer starts a thread of its own. The test starts
  // a thread before it counts, so that the first count includes the sanitizer's thread.
  std::thread([] {}).join();
  const std::size_t before = threads();
  {
    Pair pair;
    {
      Request request = begin(*pair.zero);
      ASSERT_TRUE(pair.zero->on_completion(request, [request](const Status&) {}));
      pair.zero.reset();
    }
    finish(begin(*pair.one));
  }
  const Instant deadline = runtime::now() + kLong;
  while (threads() > before && runtime::now() < deadline) std::this_thread::yield();
  EXPECT_LE(threads(), before);
}

TEST(CompletionCallback, OnCompletion_ofAnotherCommunicatorsRequest_doesNotWaitForABusyEngine) {
  Pair busy;
  Pair other;
  std::promise<void> entered;
  std::promise<void> registered;
  Request blocked = begin(*busy.zero);
  ASSERT_TRUE(busy.zero->on_completion(blocked, [&](const Status&) {
    entered.set_value();
    EXPECT_EQ(registered.get_future().wait_for(kLong), std::future_status::ready);
  }));
  Request its_peer = begin(*busy.one);
  entered.get_future().wait();
  Request request = begin(*other.zero);
  std::atomic<int> calls{0};
  EXPECT_TRUE(busy.zero->on_completion(request, [&](const Status&) { ++calls; }));
  registered.set_value();
  finish(begin(*other.one));
  EXPECT_TRUE(request.wait_for(kLong));
  EXPECT_EQ(calls, 1);
  EXPECT_TRUE(blocked.wait_for(kLong));
  EXPECT_TRUE(its_peer.wait_for(kLong));
}

/// Uses a communicator of another engine, which also runs a callback, in a callback.
void use_from_callback(Communicator& other, Request& running) {
  EXPECT_EQ(other.status().code(), Code::invalid_argument);
  EXPECT_TRUE(other.counters().empty());
  EXPECT_EQ(other.barrier().status().code(), Code::invalid_argument);
  EXPECT_EQ(other.on_completion(running, nullptr).code(), Code::invalid_argument);
  EXPECT_EQ(running.wait_for(kLong).code(), Code::invalid_argument);
  EXPECT_EQ(other.finalize(kLong).code(), Code::invalid_argument);
  other.abort("a callback of another communicator");
}

TEST(CompletionCallback, CallbacksOfTwoEngines_thatUseEachOthersCommunicator_abortButDoNotWait) {
  std::array<Pair, 2> pairs;
  std::array requests{begin(*pairs[0].zero), begin(*pairs[1].zero)};
  std::barrier both_inside(2);
  for (std::size_t i = 0; i < 2; ++i) {
    ASSERT_TRUE(pairs[i].zero->on_completion(requests[i], [&, other = 1 - i](const Status& status) {
      EXPECT_TRUE(status) << status.to_string();
      both_inside.arrive_and_wait();
      use_from_callback(*pairs[other].zero, requests[other]);
      both_inside.arrive_and_wait();
    }));
  }
  std::array peers{begin(*pairs[0].one), begin(*pairs[1].one)};
  for (Request& peer : peers) (void)peer.wait_for(kLong);  // the abort may end it with an error
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_TRUE(requests[i].wait_for(kLong));
    const Instant deadline = runtime::now() + kLong;
    while (pairs[i].zero->status() && runtime::now() < deadline) std::this_thread::yield();
    const Status status = pairs[i].zero->status();
    EXPECT_EQ(status.code(), Code::aborted) << status.to_string();
    EXPECT_NE(status.message().find("a callback of another"), std::string::npos);
  }
}

TEST(CompletionCallback, CallbackMayUseADuplicate) {
  Pair pair;
  std::optional<Communicator> duplicate_of_one;
  std::thread other([&] { duplicate_of_one = std::move(*pair.one->duplicate()); });
  auto duplicate = pair.zero->duplicate();
  other.join();
  ASSERT_TRUE(duplicate.ok()) << duplicate.status().to_string();
  Request request = begin(*pair.zero);
  Request next;
  ASSERT_TRUE(pair.zero->on_completion(request, [&](const Status&) {
    EXPECT_FALSE(duplicate->counters().empty());
    next = begin(*duplicate);
  }));
  finish(begin(*pair.one));
  EXPECT_TRUE(request.wait_for(kLong));
  finish(begin(*duplicate_of_one));
  EXPECT_TRUE(next.wait_for(kLong));
  std::thread closing([&] { duplicate_of_one.reset(); });
  { const Communicator closed = std::move(*duplicate); }
  closing.join();
}

}  // namespace
}  // namespace tutti
