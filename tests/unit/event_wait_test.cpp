#include "device/posix/event_wait.hpp"

#include <gtest/gtest.h>
#include <sys/eventfd.h>

#include <array>
#include <cerrno>
#include <chrono>

#include "device/posix/descriptor.hpp"

namespace tutti::device {
namespace {

using std::chrono::steady_clock;
using namespace std::chrono_literals;

int calls = 0;

template <int error>
int refuse(int, epoll_event*, int, const timespec*, const sigset_t*) {
  ++calls;
  errno = error;
  return -1;
}

/// An epoll set with one event file descriptor.
struct Watched {
  Watched() : event(::eventfd(0, EFD_NONBLOCK)), epoll(::epoll_create1(0)) {
    epoll_event wanted{.events = EPOLLIN, .data = {.fd = event.get()}};
    EXPECT_EQ(::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, event.get(), &wanted), 0);
  }

  /// Returns a copy, because epoll_event is packed on x86-64 and no reference to its members is
  /// possible.
  int first_ready() const { return events[0].data.fd; }

  Descriptor event;
  Descriptor epoll;
  std::array<epoll_event, 2> events{};
};

class EventWaiterRefused : public testing::TestWithParam<EpollPwait2> {};

TEST_P(EventWaiterRefused, Wait_ifTheSystemCallIsMissingOrRefused_fallsBack_andDoesNotTryItAgain) {
  Watched watched;
  EventWaiter waiter(GetParam());
  calls = 0;
  ASSERT_EQ(::eventfd_write(watched.event.get(), 1), 0);
  const int first = waiter.wait(watched.epoll.get(), watched.events, timespec{10, 0});
  EXPECT_EQ(first, 1);
  EXPECT_EQ(watched.first_ready(), watched.event.get());
  EXPECT_TRUE(waiter.falls_back());
  EXPECT_EQ(waiter.wait(watched.epoll.get(), watched.events, timespec{10, 0}), 1);
  EXPECT_EQ(calls, GetParam() == nullptr ? 0 : 1);
}

TEST_P(EventWaiterRefused, Wait_withATimeoutBelowAMillisecond_sleepsAtLeastThatLong) {
  Watched watched;
  EventWaiter waiter(GetParam());
  const auto begin = steady_clock::now();
  EXPECT_EQ(waiter.wait(watched.epoll.get(), watched.events, timespec{0, 300'001}), 0);
  EXPECT_GE(steady_clock::now() - begin, 300'001ns);
}

TEST_P(EventWaiterRefused, Wait_withNoTimeLeft_returnsAtOnce_withoutEvents) {
  Watched watched;
  EventWaiter waiter(GetParam());
  EXPECT_EQ(waiter.wait(watched.epoll.get(), watched.events, timespec{0, 0}), 0);
}

INSTANTIATE_TEST_SUITE_P(Ways, EventWaiterRefused,
                         testing::Values(EpollPwait2(nullptr), refuse<ENOSYS>, refuse<EPERM>));

TEST(EventWaiter, Wait_interruptedByASignal_returnsTheError_withoutFallback) {
  Watched watched;
  EventWaiter waiter(refuse<EINTR>);
  EXPECT_EQ(waiter.wait(watched.epoll.get(), watched.events, timespec{0, 0}), -1);
  EXPECT_EQ(errno, EINTR);
  EXPECT_FALSE(waiter.falls_back());
}

TEST(WaitEvents, ReadyFileDescriptor_isReported) {
  Watched watched;
  ASSERT_EQ(::eventfd_write(watched.event.get(), 1), 0);
  EXPECT_EQ(wait_events(watched.epoll.get(), watched.events, timespec{10, 0}), 1);
  EXPECT_EQ(watched.first_ready(), watched.event.get());
}

}  // namespace
}  // namespace tutti::device
