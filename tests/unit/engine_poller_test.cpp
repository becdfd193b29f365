// Tests which communicators the engine polls. It polls those with work in every round, and idle
// ones, called dormant, only after an event.
#include "runtime/progress/engine_poller.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "fuzz/scripted_endpoint.hpp"
#include "runtime/progress/clock.hpp"
#include "runtime/progress/event_descriptor.hpp"

namespace tutti::runtime {
namespace {

constexpr Nanoseconds kLong = std::chrono::hours(1);

/// An endpoint that counts how often it is polled. Polling consumes its event.
class CountedEndpoint final : public fuzz::ScriptedEndpoint {
 public:
  int polls = 0;
  Instant deadline = kNever;
  std::function<void()> on_prepare = [] {};

  void arrive() { signal_event(event_); }

  std::size_t poll(Instant, std::span<device::Completion>) override {
    ++polls;
    clear_event(event_.get());
    deadline = kNever;
    return 0;
  }
  bool prepare_wait() override {
    on_prepare();
    return true;
  }
  Instant next_deadline() const override { return deadline; }
  int wait_descriptor() const override { return event_.get(); }

 private:
  device::Descriptor event_ = make_event();
};

/// An operation that never ends by itself.
class EndlessOperation final : public engine::Operation {
 public:
  EndlessOperation() : Operation({"barrier", "endless"}) {}

  bool poll(Instant) override { return false; }
  bool locally_complete() const override { return true; }
  bool done() const override { return false; }
  observe::Phase phase() const override { return observe::Phase::data; }
  engine::Missing missing() const override { return {}; }
  void finish() override {}

 protected:
  void start(Instant, bool) override {}
};

class EnginePollerOf : public testing::Test {
 protected:
  static constexpr int kCommunicators = 20;

  void SetUp() override {
    ASSERT_TRUE(engine_.open().ok());
    for (int i = 0; i < kCommunicators; ++i) {
      auto endpoint = std::make_unique<CountedEndpoint>();
      endpoints_.push_back(endpoint.get());
      contexts_.push_back(std::make_unique<engine::CommunicatorContext>(
          Rank{0}, 2, engine::Settings{}, std::move(endpoint),
          std::vector<std::string>{"rank 0", "rank 1"}));
      ASSERT_TRUE(engine_.add(*contexts_.back()).ok());
    }
  }

  void submit(int which) {
    contexts_[which]->operations().submit(std::make_unique<EndlessOperation>());
    engine_.on_submission(*contexts_[which]);
  }
  /// Makes the owner sleep and wakes it at once, by a notification as from another thread. Then
  /// polls the communicators that events have awakened.
  void sleep_and_poll() {
    observe::BusyTrace busy(nullptr, observe::TraceKind::owner, "");
    engine_.notify_owner();
    engine_.block(kNever, busy);
    engine_.poll_busy();
  }
  /// Lets communicator 0 run a collective until all other communicators are dormant.
  void make_dormant() {
    submit(0);
    engine_.poll_all();
    sleep_and_poll();
    sleep_and_poll();
    for (const auto& one : contexts_) {
      EXPECT_EQ(one->operations().dormant(), one != contexts_.front());
    }
    for (CountedEndpoint* const one : endpoints_) one->polls = 0;
  }
  /// The existing communicators, except 0, that were polled.
  std::vector<int> polled() const {
    std::vector<int> polled;
    for (int i = 1; i < kCommunicators; ++i) {
      if (contexts_[i] != nullptr && endpoints_[i]->polls > 0) polled.push_back(i);
    }
    return polled;
  }

  EnginePoller engine_{kLong};
  std::vector<CountedEndpoint*> endpoints_;
  std::vector<std::unique_ptr<engine::CommunicatorContext>> contexts_;
};

using Which = std::vector<int>;

TEST_F(EnginePollerOf, IdleCommunicators_whileAnotherIsBusy_areNotPolled) {
  make_dormant();
  for (int round = 0; round < 10; ++round) {
    sleep_and_poll();
    for (int i = 0; i < 50; ++i) engine_.poll_busy();
    engine_.poll_all();
  }
  EXPECT_GE(endpoints_[0]->polls, 500);
  EXPECT_EQ(polled(), Which{});
}

TEST_F(EnginePollerOf, Arrival_awakensItsCommunicator) {
  make_dormant();
  endpoints_[3]->arrive();
  sleep_and_poll();
  EXPECT_EQ(polled(), Which{3});
  sleep_and_poll();
  EXPECT_TRUE(contexts_[3]->operations().dormant());
}

TEST_F(EnginePollerOf, Arrival_whileTheOwnerIsAwake_isNoticedAfterSomeRounds) {
  make_dormant();
  endpoints_[3]->arrive();
  while (contexts_[3]->operations().dormant()) engine_.poll_busy();
  EXPECT_EQ(polled(), Which{3});
}

TEST_F(EnginePollerOf, CommunicatorsWithArrivals_beyondWhatOneWaitReports_areAllPolled) {
  make_dormant();
  Which all;
  for (int i = 1; i < kCommunicators; ++i) {
    endpoints_[i]->arrive();
    all.push_back(i);
  }
  for (int i = 0; i < 3; ++i) sleep_and_poll();
  EXPECT_EQ(polled(), all);
}

TEST_F(EnginePollerOf, CallToADormantCommunicator_beginsInTheNextRound) {
  make_dormant();
  submit(7);
  EXPECT_TRUE(contexts_[7]->operations().has_submissions());
  engine_.poll_busy();
  EXPECT_FALSE(contexts_[7]->operations().has_submissions());
  EXPECT_EQ(polled(), Which{7});
}

TEST_F(EnginePollerOf, CallsToSeveralDormantCommunicators_allBeginInTheNextRound) {
  make_dormant();
  for (const int which : {7, 9, 7, 12}) submit(which);
  engine_.poll_busy();
  EXPECT_EQ(polled(), (Which{7, 9, 12}));
}

TEST_F(EnginePollerOf, RemovalAfterACall_leavesNoReferenceToTheCommunicator) {
  make_dormant();
  submit(7);
  engine_.remove(*contexts_[7]);
  contexts_[7].reset();
  sleep_and_poll();
  engine_.poll_all();
  EXPECT_EQ(polled(), Which{});
}

TEST_F(EnginePollerOf, CallThatComesWhileTheOwnerPreparesToSleep_preventsTheSleep) {
  submit(0);
  engine_.poll_all();
  endpoints_[7]->on_prepare = [this] {
    if (!contexts_[7]->operations().has_submissions()) submit(7);
  };
  Instant deadline = kNever;
  EXPECT_FALSE(engine_.prepare_wait(deadline));
  EXPECT_FALSE(contexts_[7]->operations().dormant());
}

TEST_F(EnginePollerOf, Deadline_ofADormantCommunicator_becomesTheDeadlineOfTheEngine) {
  make_dormant();
  engine_.awaken(*contexts_[5]);
  const Instant due = now() + kLong;
  endpoints_[5]->deadline = due;
  Instant deadline = kNever;
  ASSERT_TRUE(engine_.prepare_wait(deadline));
  EXPECT_EQ(deadline, due);
  EXPECT_TRUE(contexts_[5]->operations().dormant());
  EXPECT_EQ(engine_.next_deadline(), due);
}

TEST_F(EnginePollerOf, DormantCommunicator_afterItsDeadline_isPolled) {
  make_dormant();
  engine_.awaken(*contexts_[5]);
  endpoints_[5]->deadline = now() + std::chrono::milliseconds(20);
  while (endpoints_[5]->deadline != kNever) sleep_and_poll();
  EXPECT_EQ(polled(), Which{5});
  EXPECT_EQ(engine_.next_deadline(), kNever);
}

TEST_F(EnginePollerOf, DeadlineOfACommunicatorThatHasAwakened_doesNotKeepTheOwnerFromSleeping) {
  make_dormant();
  engine_.awaken(*contexts_[5]);
  Instant deadline = kNever;
  do {  // prepare_wait() refuses a deadline that has already passed
    endpoints_[5]->deadline = now() + std::chrono::milliseconds(1);
    deadline = kNever;
  } while (!engine_.prepare_wait(deadline));
  for (const auto& one : contexts_) engine_.awaken(*one);  // as if every communicator had an event
  while (now() <= deadline) engine_.poll_all();
  engine_.poll_all();
  EXPECT_EQ(engine_.next_deadline(), kNever);
  Instant next = kNever;
  EXPECT_TRUE(engine_.prepare_wait(next));
}

TEST_F(EnginePollerOf, Abort_ofADormantCommunicator_takesEffectInTheNextRound) {
  make_dormant();
  contexts_[4]->failures().abort("test");
  engine_.on_change();
  engine_.poll_busy();
  EXPECT_TRUE(contexts_[4]->failures().noted());
  EXPECT_FALSE(contexts_[4]->operations().dormant());
}

TEST_F(EnginePollerOf, RemovedCommunicator_isNotAwakened) {
  make_dormant();
  engine_.remove(*contexts_[2]);
  endpoints_[2]->arrive();
  engine_.on_change();
  for (int i = 0; i < 3; ++i) sleep_and_poll();
  engine_.poll_all();
  EXPECT_EQ(polled(), Which{});
}

}  // namespace
}  // namespace tutti::runtime
