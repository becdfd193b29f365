// Tests completion callbacks that set callbacks, own their request, or belong to another
// communicator.
#include <gtest/gtest.h>

#include <atomic>
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

}  // namespace
}  // namespace tutti
