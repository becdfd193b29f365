// Tests the priority of progress threads. If the process may raise priorities, progress threads get
// a higher priority than computing threads, and counters report this. A nice value in the
// environment is applied, or refused with an error that names the value.
#include "runtime/communicator/create.hpp"
#include "runtime/progress/thread_priority.hpp"

#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <barrier>
#include <cerrno>
#include <filesystem>
#include <string>
#include <thread>

#include "communicator_ranks.hpp"
#include "requirements.hpp"

namespace tutti::test {
namespace {

using runtime::apply_priority;
using runtime::PriorityRequest;
using runtime::progress_priority;
using runtime::set_realtime;

constexpr const char* kVariable = "TUTTI_PROGRESS_NICE";

/// Runs `work` on a thread of its own, because a raised priority cannot be lowered again.
template <typename Work>
void apart(Work&& work) {
  std::thread(work).join();
}

int nice_of_this_thread() { return ::getpriority(PRIO_PROCESS, 0); }

bool may_go_first() {
  bool may = false;
  apart([&] { may = ::setpriority(PRIO_PROCESS, 0, -20) == 0; });
  return may && nice_of_this_thread() == 0;
}

int policy_of_this_thread() { return ::sched_getscheduler(0) & ~SCHED_RESET_ON_FORK; }

/// Whether real-time priority works here; a control group may grant no budget even to a privileged
/// process.
bool may_go_before_all() {
  bool may = false;
  apart([&] {
    const sched_param lowest{.sched_priority = ::sched_get_priority_min(SCHED_RR)};
    may = ::sched_setscheduler(0, SCHED_RR, &lowest) == 0;
  });
  return may && nice_of_this_thread() == 0;
}

/// Revokes the right of the calling thread to raise its priority; false if that is impossible on
/// this machine.
bool loses_its_right() {
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  __user_cap_data_struct sets[2]{};
  if (::syscall(SYS_capget, &header, sets) != 0) return false;
  sets[0].effective &= ~(1u << CAP_SYS_NICE);
  if (::syscall(SYS_capset, &header, sets) != 0) return false;
  return ::setpriority(PRIO_PROCESS, 0, -1) != 0;
}

std::uint64_t priority_of(const Communicator& communicator) {
  return counters_of(communicator).at("background_priority");
}

class ThreadWakeup : public testing::Test {
 protected:
  void TearDown() override { ::unsetenv(kVariable); }
};

TEST_F(ThreadWakeup, InvalidNiceValue_isRefused_andTheErrorNamesItsVariable) {
  for (const char* value : {"", "x", "-21", "20", "-10 ", "+3", "99999999999"}) {
    ::setenv(kVariable, value, 1);
    const auto precedence = progress_priority();
    ASSERT_FALSE(precedence.ok()) << value;
    EXPECT_EQ(precedence.status().code(), Code::invalid_argument);
    EXPECT_NE(precedence.status().message().find(kVariable), std::string::npos)
        << precedence.status().to_string();
  }
}

TEST_F(ThreadWakeup, ThreadThatMayLowerItsNiceValue_raisesItsPriority) {
  if (!may_go_first()) return test::skip_without("priority", "no negative nice values here");
  apart([] {
    const auto precedence = progress_priority();
    ASSERT_TRUE(precedence.ok() && precedence->nice.has_value());
    EXPECT_FALSE(precedence->demanded);
    const auto granted = apply_priority({.nice = precedence->nice});
    ASSERT_TRUE(granted.ok()) << granted.status().to_string();
    EXPECT_FALSE(granted->realtime);
    EXPECT_EQ(granted->nice, *precedence->nice);
    EXPECT_LT(granted->nice, 0);
    EXPECT_EQ(nice_of_this_thread(), granted->nice);
    // A thread that a completion callback starts must have the application's priority.
    apart([] { EXPECT_EQ(nice_of_this_thread(), 0); });
  });
  EXPECT_EQ(nice_of_this_thread(), 0);
}

std::size_t occurrences(const std::string& text, const std::string& of) {
  std::size_t count = 0;
  for (auto at = text.find(of); at != std::string::npos; at = text.find(of, at + 1)) ++count;
  return count;
}

/// The text that this process writes to standard error while two of its threads raise their
/// priority.
std::string notices_of_two_threads(const PriorityRequest& request) {
  testing::internal::CaptureStderr();
  for (int thread = 0; thread < 2; ++thread) apart([&] { (void)apply_priority(request); });
  return testing::internal::GetCapturedStderr();
}

// The test runs in a child process, because each process writes the notice of its real-time
// priority only once.
TEST_F(ThreadWakeup, GrantedRealtimePriorityIsAnnouncedOnce) {
  if (!may_go_before_all())
    return test::skip_without("priority", "no round-robin scheduling here, or a nice value");
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto child = [] {
    const std::string text = notices_of_two_threads({.nice = -10, .realtime = true});
    const bool named = text.find(kVariable) != std::string::npos;
    ::_exit(named && occurrences(text, "real-time priority") == 1 ? 0 : 1);
  };
  EXPECT_EXIT(child(), testing::ExitedWithCode(0), "");
}

TEST_F(ThreadWakeup, RequestForANiceValueWithoutRealtime_writesNoNotice) {
  EXPECT_EQ(notices_of_two_threads({.nice = 5}), "");
}

TEST_F(ThreadWakeup, RealTimePriority_isRaisedAndLoweredAgain) {
  if (!may_go_before_all())
    return test::skip_without("priority", "no round-robin scheduling here, or a nice value");
  apart([] {
    const auto precedence = progress_priority();
    ASSERT_TRUE(precedence.ok() && precedence->realtime);
    const auto granted = apply_priority(*precedence);
    ASSERT_TRUE(granted.ok()) << granted.status().to_string();
    EXPECT_TRUE(granted->realtime);
    EXPECT_EQ(policy_of_this_thread(), SCHED_RR);
    apart([] { EXPECT_EQ(policy_of_this_thread(), SCHED_OTHER); });
    ASSERT_TRUE(set_realtime(granted->nice, false));
    EXPECT_EQ(policy_of_this_thread(), SCHED_OTHER);
    EXPECT_EQ(nice_of_this_thread(), granted->nice);
    ASSERT_TRUE(set_realtime(granted->nice, true));
    EXPECT_EQ(policy_of_this_thread(), SCHED_RR);
  });
}

TEST_F(ThreadWakeup, ProcessWithANiceValue_keepsThatValue) {
  apart([] {
    ASSERT_EQ(::setpriority(PRIO_PROCESS, 0, 7), 0);
    const auto precedence = progress_priority();
    ASSERT_TRUE(precedence.ok());
    EXPECT_FALSE(precedence->nice.has_value());
    const auto granted = apply_priority(*precedence);
    ASSERT_TRUE(granted.ok()) << granted.status().to_string();
    EXPECT_EQ(granted->nice, 7);
    EXPECT_FALSE(granted->realtime);
  });
}

TEST_F(ThreadWakeup, RefusedNiceValue_isAnErrorOnlyIfItWasDemanded) {
  apart([] {
    if (!loses_its_right())
      return test::skip_without("nicelimit", "RLIMIT_NICE allows negative nice values");
    const auto unasked = apply_priority({.nice = -10, .realtime = true});
    ASSERT_TRUE(unasked.ok()) << unasked.status().to_string();
    EXPECT_EQ(unasked->nice, 0);
    EXPECT_FALSE(unasked->realtime);
    EXPECT_FALSE(set_realtime(0, true));
    const auto demanded = apply_priority({.nice = -10, .demanded = true});
    ASSERT_FALSE(demanded.ok());
    EXPECT_NE(demanded.status().message().find(kVariable), std::string::npos);
    EXPECT_NE(demanded.status().message().find("ulimit -e 30"), std::string::npos)
        << demanded.status().to_string();
  });
}

TEST_F(ThreadWakeup, BackgroundThread_raisesItsPriority_whenAThreadComputes) {
  if (!may_go_first()) return test::skip_without("priority", "no negative nice values here");
  const Bytes own = pattern(128 * 1024, 1);
  on_ranks(2, patient(), [&](Communicator& communicator) {
    finish(communicator.barrier({.will_wait = true}));
    EXPECT_EQ(priority_of(communicator), 0u);
    // The collective is too long for a slot exchange, because a slot exchange may end before any
    // thread computes.
    Bytes all(2 * own.size());
    finish(communicator.allgather(own, all));
    // The background thread raises its priority the next time that it becomes the owner of the
    // engine.
    while (priority_of(communicator) == 0) std::this_thread::yield();
    EXPECT_EQ(priority_of(communicator), 10u);
  });
}

TEST_F(ThreadWakeup, RankAloneOnItsHost_getsRealTimePriority) {
  if (!may_go_before_all())
    return test::skip_without("priority", "no round-robin scheduling here, or a nice value");
  const Bytes own = pattern(128 * 1024, 1);
  on_ranks(1, patient(), [&](Communicator& communicator) {
    Bytes all(own.size());
    finish(communicator.allgather(own, all));
    while (priority_of(communicator) == 0) std::this_thread::yield();
    EXPECT_EQ(priority_of(communicator), 100u);
  });
}

TEST_F(ThreadWakeup, CommunicatorWithANegativeNiceValue_raisesItsProgressThread) {
  if (!may_go_first()) return test::skip_without("priority", "no negative nice values here");
  ::setenv(kVariable, "-4", 1);
  on_ranks(2, patient(), [](Communicator& communicator) {
    EXPECT_EQ(priority_of(communicator), 4u);
    finish(communicator.barrier());
    EXPECT_EQ(priority_of(communicator), 4u);
  });
}

/// Number of threads of this process with this nice value.
std::size_t threads_at(int nice) {
  std::size_t count = 0;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
    const auto id = static_cast<id_t>(std::stoi(thread.path().filename()));
    count += ::getpriority(PRIO_PROCESS, id) == nice ? 1 : 0;
  }
  return count;
}

TEST_F(ThreadWakeup, CommunicatorWithAPositiveNiceValue_lowersItsProgressThread) {
  ::setenv(kVariable, "3", 1);
  std::barrier both(2);
  on_ranks(2, patient(), [&both](Communicator& communicator) {
    finish(communicator.barrier());
    EXPECT_EQ(priority_of(communicator), 0u);
    both.arrive_and_wait();
    EXPECT_EQ(threads_at(3), 2u) << "one progress thread of each rank";
    both.arrive_and_wait();
  });
}

TEST_F(ThreadWakeup, CommunicatorWithAWordAsNiceValue_isRefused) {
  ::setenv(kVariable, "much", 1);
  auto bootstraps = runtime::make_local_bootstraps(1);
  const auto refused = runtime::create_communicator(*bootstraps[0], patient());
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.status().message().find("\"much\""), std::string::npos)
      << refused.status().to_string();
}

}  // namespace
}  // namespace tutti::test
