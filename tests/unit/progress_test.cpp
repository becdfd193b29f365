// Tests threads that share the engine: a thread that waits in a collective must yield to one that
// reads counters or aborts. If the waiting thread does not yield, the test hangs.
#include "runtime/progress/progress.hpp"
#include "runtime/communicator/create.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <thread>

#include "engine/core/operation.hpp"
#include "runtime/bootstrap/local_bootstrap.hpp"
#include "runtime/communicator/communicator_impl.hpp"
#include "runtime/progress/clock.hpp"
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

/// Two ranks of one process. The first waits in a barrier that the second has not entered yet.
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
  /// Enters the barrier at the second rank and returns the status of both ranks.
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
    auto communicator = runtime::create_communicator(bootstrap, patient());
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

TEST(Progress, Counters_canBeReadWhileAnotherThreadWaitsInACollective) {
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
  // The first rank entered the barrier before the abort, so this barrier may have succeeded at the
  // second rank. The next barrier of the second rank must then fail.
  if (second) second = barrier.call_second();
  EXPECT_FALSE(second) << "the peer must learn of the abort";
  EXPECT_NE(second.message().find("rank 0"), std::string::npos) << second.to_string();
}

/// An operation that throws in every poll for which `throws` returns true.
class Throwing final : public engine::Operation {
 public:
  Throwing(bool meets, std::function<bool()> throws)
      : Operation({.operation = "test", .algorithm = "test"}),
        meets_(meets),
        throws_(std::move(throws)) {}

  bool poll(Instant) override {
    if (throws_()) throw std::bad_alloc();
    return false;
  }
  bool meets() const override { return meets_; }
  bool locally_complete() const override { return false; }
  bool done() const override { return false; }
  observe::Phase phase() const override { return observe::Phase::data; }

 private:
  void start(Instant, bool) override {}

  bool meets_;
  std::function<bool()> throws_;
};

/// An operation that ends with the first poll for which `ends` returns true.
class EndsOnDemand final : public engine::Operation {
 public:
  explicit EndsOnDemand(std::function<bool()> ends)
      : Operation({.operation = "test", .algorithm = "test"}), ends_(std::move(ends)) {}

  bool poll(Instant) override { return ended_ = ended_ || ends_(); }
  bool locally_complete() const override { return ended_; }
  bool done() const override { return ended_; }
  observe::Phase phase() const override { return observe::Phase::data; }

 private:
  void start(Instant, bool) override {}

  std::function<bool()> ends_;
  bool ended_ = false;
};

/// Two communicators of one rank; the same engine serves both.
class OneEngine : public testing::Test {
 protected:
  OneEngine() : first_(create(nullptr, 0)), second_(create(first_->progress(), 1)) {}

  static std::shared_ptr<runtime::CommunicatorImpl> create(
      std::shared_ptr<runtime::Progress> progress, std::uint16_t number) {
    auto bootstraps = runtime::make_local_bootstraps(1);
    auto made = runtime::CommunicatorImpl::create(*bootstraps.front(), patient(),
                                                  std::move(progress), {.number = number});
    EXPECT_TRUE(made.ok()) << made.status().to_string();
    return *made;
  }

  runtime::Progress& progress() { return *first_->progress(); }

  std::shared_ptr<runtime::CommunicatorImpl> first_;
  std::shared_ptr<runtime::CommunicatorImpl> second_;
};

class EngineThatThrows : public OneEngine {
 protected:
  std::shared_ptr<engine::Completion> submit(bool meets, std::function<bool()> throws,
                                             bool will_wait) {
    auto operation = std::make_unique<Throwing>(meets, std::move(throws));
    auto completion = operation->completion();
    progress().submit(first_->context(), std::move(operation), will_wait);
    return completion;
  }

  /// Expects that the operation failed for lack of memory, that later calls fail at once, and that
  /// the other communicator still works.
  void expect_failed(const engine::Completion& completion) {
    ASSERT_TRUE(completion.done.load());
    EXPECT_EQ(completion.status.code(), Code::resource_exhausted);
    EXPECT_NE(completion.status.message().find("out of memory"), std::string::npos)
        << completion.status.to_string();
    const Status later = barrier(*first_);
    EXPECT_FALSE(later) << "a failed communicator must refuse later calls";
    EXPECT_NE(later.message().find("out of memory"), std::string::npos) << later.to_string();
    const Status other = barrier(*second_);
    EXPECT_TRUE(other) << other.to_string();
    progress().with_engine([] {});
  }

  static Status barrier(runtime::CommunicatorImpl& communicator) {
    auto request =
        communicator.start({.collective = Collective::barrier, .options = {.will_wait = true}});
    if (!request) return request.status();
    const engine::Completion& completion = *(*request)->completion;
    if (!communicator.progress()->wait(completion, runtime::now() + kLong))
      return Status(Code::timeout, "the barrier did not complete in time");
    return completion.status;
  }
};

/// Two communicators of an application that waits at once for each call that it starts.
class PromptWaits : public OneEngine {
 protected:
  static constexpr int kAttempts = 2000;

  std::shared_ptr<engine::Completion> start(runtime::CommunicatorImpl& communicator,
                                            std::function<bool()> ends, bool will_wait = false) {
    auto operation = std::make_unique<EndsOnDemand>(std::move(ends));
    auto completion = operation->completion();
    progress().submit(communicator.context(), std::move(operation), will_wait);
    return completion;
  }

  /// Starts and waits for three operations, then starts another, which must not wake the progress
  /// thread. A busy machine may need several attempts; returns null if all kAttempts fail.
  std::shared_ptr<engine::Completion> start_unattended(const std::function<bool()>& ends) {
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      for (int call = 0; call < 3; ++call) {
        const auto completion = start(*second_, [] { return true; });
        EXPECT_TRUE(progress().wait(*completion, runtime::now() + kLong));
      }
      wakes_before_ = progress().wakes();
      auto completion = start(*first_, ends);
      if (progress().wakes() == wakes_before_) return completion;
      ended_ = true;
      EXPECT_TRUE(progress().wait(*completion, runtime::now() + kLong));
      ended_ = false;
    }
    return nullptr;
  }

  std::atomic<bool> ended_{false};
  std::uint64_t wakes_before_ = 0;  ///< wakes() before the last unattended operation
};

TEST_F(PromptWaits, StartAfterThreePromptWaits_doesNotWakeTheProgressThread) {
  const auto completion = start_unattended([this] { return ended_.load(); });
  ASSERT_NE(completion, nullptr);
  ended_ = true;
  EXPECT_TRUE(progress().wait(*completion, runtime::now() + kLong));
}

TEST_F(PromptWaits, WaitsForABatch_doNotWakeTheProgressThread) {
  // On a busy machine a wait may come late and wake the progress thread, so the test makes several
  // attempts.
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    ended_ = false;
    std::array<std::shared_ptr<engine::Completion>, 2> batch;
    batch[0] = start_unattended([this] { return ended_.load(); });
    ASSERT_NE(batch[0], nullptr);
    batch[1] = start(*second_, [this] { return ended_.load(); });
    ended_ = true;
    EXPECT_TRUE(progress().wait(*batch[0], runtime::now() + kLong, true));
    EXPECT_TRUE(progress().wait(*batch[1], runtime::now() + kLong));
    if (progress().wakes() == wakes_before_) return;
  }
  ADD_FAILURE() << "each of " << kAttempts << " batches woke the progress thread";
}

TEST_F(PromptWaits, CallForWhichTheApplicationDoesNotWait_isPolledByTheProgressThread) {
  const auto test = std::this_thread::get_id();
  // If the progress thread still polls after an earlier call, it takes the engine without a wake-up
  // that wakes() counts. The test therefore makes several attempts.
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const auto completion = start_unattended(
        [this, test] { return ended_.load() || std::this_thread::get_id() != test; });
    ASSERT_NE(completion, nullptr);
    const Instant deadline = runtime::now() + kLong;
    while (!completion->done.load() && runtime::now() < deadline) std::this_thread::yield();
    ASSERT_TRUE(completion->done.load());
    if (progress().wakes() > wakes_before_) return;
  }
  ADD_FAILURE() << "the progress thread woke for none of " << kAttempts << " calls without a wait";
}

TEST_F(PromptWaits, WaitForAnotherCall_wakesTheProgressThread_forTheCallInFlight) {
  const auto completion = start_unattended([this] { return ended_.load(); });
  ASSERT_NE(completion, nullptr);
  const auto other = start(
      *second_, [] { return true; }, true);
  EXPECT_TRUE(progress().wait(*other, runtime::now() + kLong));
  EXPECT_GT(progress().wakes(), wakes_before_);
  ended_ = true;
  EXPECT_TRUE(progress().wait(*completion, runtime::now() + kLong));
}

// The other thread owns the engine and sleeps, because nothing arrives. Without a notification this
// sleep could delay a call by up to a second.
TEST_F(PromptWaits, CallsDuringALongWaitOfAnotherThread_areSeenByThatThread) {
  constexpr int kCalls = 200;
  std::thread other([this] {
    const auto never = start(
        *first_, [this] { return ended_.load(); }, true);
    EXPECT_TRUE(progress().wait(*never, runtime::now() + 5 * kLong));
  });
  int slow = 0;
  for (int call = 0; call < kCalls; ++call) {
    // Meanwhile the owner of the engine falls asleep.
    std::this_thread::sleep_for(std::chrono::microseconds(500));
    const Instant begun = runtime::now();
    const auto completion = start(
        *second_, [] { return true; }, call % 2 == 0);
    EXPECT_TRUE(progress().wait(*completion, begun + kLong)) << "call " << call;
    if (runtime::now() - begun > std::chrono::milliseconds(500)) ++slow;
  }
  EXPECT_LT(slow, kCalls / 4) << "calls that took more than 500 ms";
  ended_ = true;
  const auto last = start(
      *second_, [] { return true; }, true);
  EXPECT_TRUE(progress().wait(*last, runtime::now() + kLong));
  other.join();
}

TEST_F(EngineThatThrows, EngineOwner_afterUseOfAnotherEngine_stillOwnsItsEngine) {
  const auto other = create(nullptr, 0);
  progress().with_engine([&] {
    EXPECT_TRUE(barrier(*other));
    EXPECT_TRUE(progress().caller_owns_engine())
        << "the next use of this engine would wait forever";
  });
}

TEST_F(EngineThatThrows, OperationThatThrows_duringAWait_failsOnlyItsCommunicator) {
  const auto test = std::this_thread::get_id();
  const auto completion = submit(
      false, [test] { return std::this_thread::get_id() == test; }, true);
  EXPECT_TRUE(progress().wait(*completion, runtime::now() + kLong));
  expect_failed(*completion);
}

TEST_F(EngineThatThrows, OperationThatThrows_duringAPoll_failsOnlyItsCommunicator) {
  const auto test = std::this_thread::get_id();
  const auto completion = submit(
      false, [test] { return std::this_thread::get_id() == test; }, true);
  const Instant deadline = runtime::now() + kLong;
  // A poll does nothing while the progress thread owns the engine.
  while (!completion->done.load() && runtime::now() < deadline) progress().poll();
  expect_failed(*completion);
}

TEST_F(EngineThatThrows, OperationThatThrows_duringItsInlineStart_failsOnlyItsCommunicator) {
  const auto completion = submit(
      true, [] { return true; }, true);
  EXPECT_TRUE(progress().wait(*completion, runtime::now() + kLong));
  expect_failed(*completion);
}

TEST_F(EngineThatThrows, OperationThatThrows_duringALaterInlinePoll_failsOnlyItsCommunicator) {
  int polls = 0;
  const auto completion = submit(
      true, [&polls] { return ++polls > 2; }, true);
  EXPECT_TRUE(progress().wait(*completion, runtime::now() + kLong));
  expect_failed(*completion);
}

TEST_F(EngineThatThrows, OperationThatThrows_inTheBackgroundThread_failsOnlyItsCommunicator) {
  const auto test = std::this_thread::get_id();
  const auto completion = submit(
      false, [test] { return std::this_thread::get_id() != test; }, false);
  const Instant deadline = runtime::now() + kLong;
  while (!completion->done.load() && runtime::now() < deadline) std::this_thread::yield();
  expect_failed(*completion);
}

TEST_F(EngineThatThrows, NonStandardException_inAnyThread_failsOnlyTheOperationsCommunicator) {
  for (const bool background : {false, true}) {
    const auto failing = create(first_->progress(), background ? 3 : 2);
    const auto test = std::this_thread::get_id();
    auto operation = std::make_unique<Throwing>(false, [=]() -> bool {
      if (background == (std::this_thread::get_id() != test)) throw 7;
      return false;
    });
    const auto completion = operation->completion();
    progress().submit(failing->context(), std::move(operation), !background);
    const Instant deadline = runtime::now() + kLong;
    while (!completion->done.load() && runtime::now() < deadline) {
      if (background) {
        std::this_thread::yield();
      } else {
        progress().poll();
      }
    }
    ASSERT_TRUE(completion->done.load());
    EXPECT_EQ(completion->status.code(), Code::internal) << completion->status.to_string();
    const Status other = barrier(*second_);
    EXPECT_TRUE(other) << other.to_string();
  }
}

TEST_F(EngineThatThrows, CallbackThatThrows_doesNotDisturbLaterCalls) {
  const std::function<void(const Status&)> callbacks[] = {
      [](const Status&) { throw std::bad_alloc(); }, [](const Status&) { throw 7; }};
  for (const auto& callback : callbacks) {
    auto request =
        second_->start({.collective = Collective::barrier, .options = {.will_wait = true}});
    ASSERT_TRUE(request.ok()) << request.status().to_string();
    progress().with_engine([&] { progress().call_application(callback, {}); });
    EXPECT_TRUE(progress().wait(*(*request)->completion, runtime::now() + kLong));
    const Status later = barrier(*second_);
    EXPECT_TRUE(later) << later.to_string();
  }
}

}  // namespace
}  // namespace tutti
