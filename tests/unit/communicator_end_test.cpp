// Tests how a communicator ends: status(), finalize(), and the state after a failure or after a
// wait that timed out.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "communicator_ranks.hpp"
#include "device/forwarding_endpoint.hpp"
#include "loopback_device.hpp"
#include "runtime/bootstrap/local_bootstrap.hpp"
#include "runtime/communicator/communicator_impl.hpp"
#include "runtime/communicator/create.hpp"
#include "tutti/communicator.hpp"

namespace tutti {
namespace {

using namespace test;

// A Barrier that is done at one rank may still be in flight at another, where an abort would end
// it with an error. The ranks therefore also meet at a barrier of threads, `ready`, before one of
// them ends its communicator.

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

Status end_of(Result<Request> request) {
  return request.ok() ? request->wait_for(kLong) : request.status();
}

/// Polls status() until it is an error, while no call is in flight.
Status await_failure(const Communicator& communicator) {
  const auto give_up = std::chrono::steady_clock::now() + kLong;
  Status status = communicator.status();
  while (status && std::chrono::steady_clock::now() < give_up) {
    std::this_thread::sleep_for(milliseconds(1));
    status = communicator.status();
  }
  return status;
}

void expect_finalized(const Status& status) {
  EXPECT_EQ(status.code(), Code::invalid_argument) << status.to_string();
  EXPECT_NE(status.message().find("was finalized"), std::string::npos) << status.to_string();
}

// ---- status -------------------------------------------------------------------------------------

TEST(CommunicatorEnd, Status_afterAnAbortBetweenCalls_staysTheFirstFailure) {
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

/// Ranks 0 and 2 make a call, and a wait of rank `knows_them` (0 or 2) times out. The error must
/// name ranks 1 and 3, which make the call only after the timeout.
void expect_late_ranks_named(const std::function<Result<Request>(Communicator&)>& call,
                             Rank knows_them) {
  CommunicatorOptions options = patient();
  options.device_name = "ip";
  options.interface = "lo";
  options.hierarchy = "flat";
  std::barrier<> timed_out(4);
  on_ranks(4, options, [&](Communicator& communicator) {
    finish(communicator.barrier());
    const bool late = index(communicator.rank()) % 2 == 1;
    if (late) timed_out.arrive_and_wait();
    auto request = call(communicator);
    if (communicator.rank() == knows_them && request.ok()) {
      // At first the error may also name the other rank that has made the call, because its data
      // has not arrived yet. The wait is therefore repeated.
      Status status = request->wait_for(milliseconds(1));
      const auto until = std::chrono::steady_clock::now() + kLong;
      while (ranks_of(status) != Numbers{1, 3} && std::chrono::steady_clock::now() < until)
        status = request->wait_for(milliseconds(1));
      EXPECT_EQ(status.code(), Code::timeout);
      EXPECT_EQ(ranks_of(status), (Numbers{1, 3})) << status.to_string();
      EXPECT_NE(status.message().find("missing here"), std::string::npos) << status.message();
    }
    if (!late) timed_out.arrive_and_wait();
    finish(std::move(request));
  });
}

TEST(CommunicatorEnd, BarrierThatTimesOut_namesTheRanksThatHaveNotCalledIt) {
  expect_late_ranks_named([](Communicator& communicator) { return communicator.barrier(); },
                          Rank{2});
}

TEST(CommunicatorEnd, GatherThatTimesOut_namesTheRanksWhoseBlocksAreMissing) {
  std::array<Bytes, 4> own;
  own.fill(Bytes(1000));
  Bytes all(4000);
  expect_late_ranks_named(
      [&](Communicator& communicator) {
        const bool root = communicator.rank() == Rank{0};
        return communicator.gather(own[index(communicator.rank())],
                                   root ? std::span(all) : std::span<std::byte>(), Rank{0},
                                   {"linear"});
      },
      Rank{0});
}

TEST(CommunicatorEnd, QueuedCallThatTimesOut_namesTheCallBeforeIt) {
  Signal timed_out;
  on_ranks(2, patient(), [&](Communicator& communicator) {
    Bytes buffer(5'003);
    if (communicator.rank() == Rank{1}) timed_out.wait();
    auto first = communicator.broadcast(buffer, Rank{1}, {Algorithm::multicast});
    auto second = communicator.barrier();
    ASSERT_TRUE(first.ok() && second.ok());
    if (communicator.rank() == Rank{0}) {
      const Status status = second->wait_for(milliseconds(20));
      EXPECT_EQ(ranks_of(status), Numbers{1}) << status.to_string();
      EXPECT_NE(status.message().find("the end of the earlier broadcast #"), std::string::npos)
          << status.message();
      timed_out.set();
    }
    finish(std::move(first));
    finish(std::move(second));
  });
}

// ---- destruction --------------------------------------------------------------------------------

/// The log of a job in which rank 0 starts a call that rank 1 never makes, does `last`, and
/// destroys its communicator. The error of rank 1 must refer to that of rank 0.
std::string log_of_a_destruction(const RankBody& last) {
  std::barrier ready(2);
  // On the device `ip`, a closing rank waits for the ACKs of its Barrier.
  CommunicatorOptions options = patient();
  options.device_name = "host";
  testing::internal::CaptureStderr();
  on_ranks(2, options, [&](Communicator& communicator) {
    finish(communicator.barrier());
    ready.arrive_and_wait();
    if (communicator.rank() == Rank{0}) {
      EXPECT_TRUE(communicator.barrier().ok());
      return last(communicator);
    }
    const Status status = await_failure(communicator);
    EXPECT_EQ(ranks_of(status), Numbers{0}) << status.to_string();
    EXPECT_NE(status.message().find("see the error of rank 0"), std::string::npos)
        << status.to_string();
  });
  return testing::internal::GetCapturedStderr();
}

TEST(CommunicatorEnd, DestructionWithACallInFlight_logsTheErrorToWhichThePeersRefer) {
  const std::string log = log_of_a_destruction([](Communicator&) {});
  const std::string line = "it closed its communicator while a call was under way";
  const std::size_t at = log.find(line);
  EXPECT_NE(at, std::string::npos) << log;
  EXPECT_EQ(log.find(line, at + 1), std::string::npos) << log;
}

TEST(CommunicatorEnd, DestructionAfterAnAbort_logsNoSecondError) {
  const std::string log =
      log_of_a_destruction([](Communicator& communicator) { communicator.abort("had enough"); });
  EXPECT_EQ(log.find("aborted by rank 0"), std::string::npos) << log;
}

// ---- finalize -----------------------------------------------------------------------------------

/// Expects that a call of rank 0 fails and names rank 1, which closes its communicator instead of
/// joining the call. With `waits_already`, rank 1 closes it only after rank 0 has started the call.
void expect_closed_peer_named(const char* device, bool waits_already) {
  CommunicatorOptions options = patient();
  options.device_name = device;
  options.hierarchy = "flat";
  Signal called;
  on_ranks(2, options, [&](Communicator& communicator) {
    finish(communicator.barrier());
    if (communicator.rank() == Rank{1}) {
      if (waits_already) called.wait();
      return;
    }
    const Bytes own = pattern(200'000, 1);
    Bytes all(own.size());
    auto request = communicator.alltoall(own, all);
    ASSERT_TRUE(request.ok()) << request.status().to_string();
    called.set();
    const Status status = request->wait_for(kLong);
    EXPECT_EQ(status.code(), Code::peer_failed) << status.to_string();
    EXPECT_EQ(ranks_of(status), Numbers{1}) << status.to_string();
    EXPECT_NE(status.message().find("has closed its communicator without taking part"),
              std::string::npos)
        << status.to_string();
  });
}

class ClosedPeer : public testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(CommunicatorEnd, ClosedPeer, testing::Values("ip", "host"),
                         [](const auto& one) { return std::string(one.param); });

TEST_P(ClosedPeer, PeerThatClosesWhileThisRankWaitsForIt_isNamedInTheError) {
  expect_closed_peer_named(GetParam(), true);
}

TEST_P(ClosedPeer, PeerThatClosesBeforeOrDuringTheCallOfThisRank_isNamedInTheError) {
  expect_closed_peer_named(GetParam(), false);
}

TEST_P(ClosedPeer, ReceiveFromAnyRank_onceAllOthersHaveClosed_fails) {
  CommunicatorOptions options = patient();
  options.device_name = GetParam();
  on_ranks(4, options, [](Communicator& communicator) {
    finish(communicator.barrier());
    if (communicator.rank() != Rank{0}) return;
    Bytes message(10);
    const Status status = end_of(communicator.receive(message, kAnyRank));
    EXPECT_EQ(status.code(), Code::peer_failed) << status.to_string();
    EXPECT_NE(status.message().find("all other ranks have closed the communicator"),
              std::string::npos)
        << status.to_string();
  });
}

TEST(CommunicatorEnd, ClosedRankThatOwesABlock_onTheHostDevice_isNamedInTheError) {
  CommunicatorOptions options = patient();
  options.device_name = "host";
  options.hierarchy = "flat";
  on_ranks(2, options, [](Communicator& communicator) {
    const bool owes = communicator.rank() == Rank{1};
    const std::array<std::uint64_t, 2> sizes{1'000, owes ? 0u : 1'000u};
    const std::array<std::uint64_t, 2> offsets{0, 1'000};
    const Bytes own = pattern(sizes[index(communicator.rank())], 1);
    Bytes all(sizes[0] + sizes[1]);
    const Status status = end_of(
        communicator.allgatherv(own, all, sizes, offsets, {.algorithm = Algorithm::multicast}));
    if (owes) {
      EXPECT_TRUE(status.ok()) << status.to_string();
      return;
    }
    EXPECT_EQ(status.code(), Code::peer_failed) << status.to_string();
    ASSERT_FALSE(status.ranks().empty()) << status.to_string();
    EXPECT_EQ(status.ranks()[0], Rank{1}) << status.to_string();
    EXPECT_NE(status.message().find("no longer retains the chunks"), std::string::npos)
        << status.to_string();
  });
}

/// Expects that the call of rank 0 fails and names rank 1, which makes a different call and closes
/// its communicator. The call of rank 1 must need no message of rank 0.
void expect_peer_of_another_call_named(const char* device,
                                       const std::function<Result<Request>(Communicator&)>& call,
                                       const char* counter) {
  CommunicatorOptions options = patient();
  options.device_name = device;
  options.hierarchy = "flat";
  Signal closed;
  on_ranks(2, options, [&](Communicator& communicator) {
    const Counters before = counters_of(communicator);
    if (communicator.rank() == Rank{1}) {
      finish(call(communicator));
      const Status end = communicator.finalize(kLong);
      EXPECT_TRUE(end) << end.to_string();
      return closed.set();
    }
    // Before rank 1 has closed, a message of this call would make rank 1 fail instead.
    closed.wait();
    const Status status = end_of(call(communicator));
    EXPECT_EQ(status.code(), Code::peer_failed) << status.to_string();
    EXPECT_EQ(ranks_of(status), Numbers{1}) << status.to_string();
    EXPECT_NE(status.message().find("has closed its communicator without taking part"),
              std::string::npos)
        << status.to_string();
    EXPECT_EQ(grown(before, counters_of(communicator), counter), 1u) << counter;
  });
}

TEST(CommunicatorEnd, GatherInsteadOfGatherv_byAClosedPeer_isNamedInTheError) {
  const Bytes own(1'000);
  std::array<Bytes, 2> all{Bytes(2'000), Bytes()};
  const std::array<std::uint64_t, 2> sizes{1'000, 1'000};
  const std::array<std::uint64_t, 2> offsets{0, 1'000};
  expect_peer_of_another_call_named(
      "host",
      [&](Communicator& communicator) {
        return communicator.rank() == Rank{1}
                   ? communicator.gather(own, {}, Rank{0})
                   : communicator.gatherv(own, all[0], sizes, offsets, Rank{0});
      },
      "collectives_failed");
}

TEST(CommunicatorEnd, AllgathervWithOtherSizes_byAClosedPeer_isNamedInTheError) {
  // Rank 1 has an empty block in both calls, and in its own call so has rank 0.
  for (const std::uint64_t bytes : {1'000u, 100'000'000u}) {
    const std::array<std::uint64_t, 2> sizes{bytes, 0}, none{0, 0};
    const std::array<std::uint64_t, 2> offsets{0, 0};
    const Bytes own(bytes);
    Bytes all(bytes);
    expect_peer_of_another_call_named(
        "ip",
        [&](Communicator& communicator) {
          const CollectiveOptions by_multicast{.algorithm = Algorithm::multicast};
          return communicator.rank() == Rank{1}
                     ? communicator.allgatherv({}, {}, none, offsets, by_multicast)
                     : communicator.allgatherv(own, all, sizes, offsets, by_multicast);
        },
        bytes > 1'000 ? "ready_by_barrier" : "ready_by_credit");
  }
}

TEST(CommunicatorEnd, DestructionAfterADifferentCall_logsTheErrorToWhichThePeersRefer) {
  CommunicatorOptions options = patient();
  options.device_name = "ip";
  options.hierarchy = "flat";
  // The call of rank 1 has no data and ends at once. Rank 0 sends a chunk and its final message, or
  // a barrier message.
  for (const std::uint64_t bytes : {1'000u, 100'000'000u}) {
    const std::array<std::uint64_t, 2> sizes{bytes, 0}, none{0, 0}, offsets{0, 0};
    const Bytes own(bytes);
    Bytes all(bytes);
    Signal failed;
    testing::internal::CaptureStderr();
    on_ranks(2, options, [&](Communicator& communicator) {
      const CollectiveOptions by_multicast{.algorithm = Algorithm::multicast};
      if (communicator.rank() == Rank{1}) {
        finish(communicator.allgatherv({}, {}, none, offsets, by_multicast));
        return failed.wait();
      }
      const Status status = end_of(communicator.allgatherv(own, all, sizes, offsets, by_multicast));
      failed.set();
      EXPECT_EQ(ranks_of(status), Numbers{1}) << status.to_string();
      EXPECT_NE(status.message().find("see the error of rank 1"), std::string::npos)
          << status.to_string();
    });
    const std::string log = testing::internal::GetCapturedStderr();
    EXPECT_NE(log.find("call the same collective with the same sizes"), std::string::npos) << log;
  }
}

TEST(CommunicatorEnd, Finalize_afterCalls_succeeds_andLaterCallsFail) {
  on_ranks(3, patient(), [](Communicator& communicator) {
    Bytes own(1'000), all(3'000);
    finish(communicator.allgather(own, all));
    finish(communicator.barrier());
    const Status end = communicator.finalize(kLong);
    EXPECT_TRUE(end) << end.to_string();
    expect_finalized(communicator.barrier().status());
    expect_finalized(communicator.prepare({.collective = Collective::barrier}).status());
    expect_finalized(communicator.algorithm_of({.collective = Collective::barrier}).status());
    expect_finalized(communicator.duplicate(patient()).status());
    expect_finalized(communicator.status());
    expect_finalized(communicator.finalize(kLong));
    communicator.abort("too late to matter");
    EXPECT_EQ(communicator.size(), 3u);
    EXPECT_GE(counters_of(communicator).at("collectives_completed"), 2u);
  });
}

TEST(CommunicatorEnd, Finalize_withACallInFlight_waitsForTheCall) {
  Signal called;
  on_ranks(2, patient(), [&](Communicator& communicator) {
    if (communicator.rank() == Rank{1}) {
      called.wait();
      std::this_thread::sleep_for(milliseconds(20));
      finish(communicator.barrier());
      return;
    }
    auto request = communicator.barrier();
    called.set();
    const Status end = communicator.finalize(kLong);
    EXPECT_TRUE(end) << end.to_string();
    ASSERT_TRUE(request.ok());
    EXPECT_TRUE(request->progress().done);
    EXPECT_TRUE(request->wait());
  });
}

void expect_that_finalize_aborts_a_call_which_the_peer_never_makes(CommunicatorOptions options) {
  std::barrier ready(2);
  on_ranks(2, options, [&](Communicator& communicator) {
    finish(communicator.barrier());
    ready.arrive_and_wait();
    if (communicator.rank() == Rank{1}) {
      const Status status = await_failure(communicator);
      EXPECT_EQ(status.code(), Code::peer_failed) << status.to_string();
      EXPECT_EQ(ranks_of(status), Numbers{0});
      return;
    }
    auto request = communicator.barrier();
    const Status end = communicator.finalize(milliseconds(50));
    EXPECT_EQ(end.code(), Code::timeout) << end.to_string();
    ASSERT_TRUE(request.ok());
    ASSERT_TRUE(request->progress().done);
    EXPECT_EQ(request->wait().code(), Code::aborted);
  });
}

TEST(CommunicatorEnd, Finalize_withACallThatAPeerNeverMakes_timesOut_andAbortsTheCall) {
  expect_that_finalize_aborts_a_call_which_the_peer_never_makes(patient());
}

TEST(CommunicatorEnd, Finalize_withReceiveWorkersAndACallOfOneRank_timesOut_andAbortsTheCall) {
  CommunicatorOptions options = patient();
  options.device_name = "ip";
  options.receive_workers = 1;
  expect_that_finalize_aborts_a_call_which_the_peer_never_makes(options);
}

TEST(CommunicatorEnd, Finalize_withUndeliveredData_timesOut_andNamesThePeers) {
  CommunicatorOptions options = patient();
  options.device_name = "ip";
  Signal finalized;
  std::barrier ready(3);
  on_ranks(3, options, [&](Communicator& communicator) {
    finish(communicator.barrier());
    ready.arrive_and_wait();
    if (communicator.rank() == Rank{0}) {
      Bytes buffer = pattern(2'000, 1);
      // At the root a short Broadcast ends even before its receivers have called it.
      finish(communicator.broadcast(buffer, Rank{0}, {.algorithm = Algorithm::multicast}));
      const Status end = communicator.finalize(milliseconds(50));
      EXPECT_EQ(end.code(), Code::timeout) << end.to_string();
      EXPECT_EQ(ranks_of(end), (Numbers{1, 2})) << end.to_string();
      finalized.set();
      return;
    }
    finalized.wait();
    communicator.abort("the root has left");
  });
}

TEST(CommunicatorEnd, Finalize_ofARootWhosePeersClose_doesNotWaitForTheirCalls) {
  CommunicatorOptions options = patient();
  options.device_name = "ip";
  Signal sent;
  on_ranks(3, options, [&](Communicator& communicator) {
    finish(communicator.barrier());
    // If a peer closed before the root had sent, the Broadcast would fail.
    if (communicator.rank() != Rank{0}) return sent.wait();
    Bytes buffer = pattern(2'000, 1);
    finish(communicator.broadcast(buffer, Rank{0}, {.algorithm = Algorithm::multicast}));
    sent.set();
    const Status end = communicator.finalize(kLong);
    EXPECT_TRUE(end.ok()) << end.to_string();
  });
}

TEST(CommunicatorEnd, Finalize_ofAFailedCommunicator_returnsTheFailure) {
  std::barrier ready(2);
  on_ranks(2, patient(), [&](Communicator& communicator) {
    finish(communicator.barrier());
    ready.arrive_and_wait();
    if (communicator.rank() == Rank{1}) communicator.abort("had enough");
    const Status failed = await_failure(communicator);
    const Status end = communicator.finalize(kLong);
    EXPECT_EQ(end.code(), failed.code()) << end.to_string();
    EXPECT_EQ(ranks_of(end), Numbers{1});
    expect_finalized(communicator.barrier().status());
  });
}

TEST(CommunicatorEnd, Finalize_inACompletionCallback_isRefused) {
  on_ranks(2, patient(), [](Communicator& communicator) {
    Status refused;
    auto request = communicator.barrier();
    ASSERT_TRUE(request.ok());
    EXPECT_TRUE(communicator.on_completion(
        *request, [&](const Status&) { refused = communicator.finalize(kLong); }));
    EXPECT_TRUE(request->wait_for(kLong));
    EXPECT_EQ(refused.code(), Code::invalid_argument) << refused.to_string();
    finish(communicator.barrier());
  });
}

// ---- observation of a closing communicator ------------------------------------------------------

TEST(CommunicatorEnd, Describe_afterFinalize_stillNamesTheReceiveWorkers) {
  CommunicatorOptions options = patient();
  options.device_name = "ip";
  options.receive_workers = 1;
  on_ranks(2, options, [](Communicator& communicator) {
    const std::string before = communicator.describe();
    EXPECT_NE(before.find("1 receive worker(s)"), std::string::npos) << before;
    EXPECT_TRUE(communicator.finalize(kLong));
    EXPECT_EQ(communicator.describe(), before);
  });
}

/// Counts the polls of the endpoints of one rank. The count begins when `progress` is set.
struct Polls {
  std::shared_ptr<runtime::Progress> progress;
  int all = 0;
  int owning = 0;
};

class WatchedEndpoint final : public device::ForwardingEndpoint {
 public:
  WatchedEndpoint(std::unique_ptr<device::Endpoint> inner, Polls& polls)
      : ForwardingEndpoint(std::move(inner)), polls_(polls) {}

  std::size_t poll(Instant now, std::span<device::Completion> completions) override {
    if (polls_.progress) {
      ++polls_.all;
      polls_.owning += polls_.progress->caller_owns_engine() ? 1 : 0;
    }
    return ForwardingEndpoint::poll(now, completions);
  }

 private:
  Polls& polls_;
};

class WatchedDevice final : public device::Device {
 public:
  explicit WatchedDevice(Polls& polls) : polls_(polls) {}
  std::string name() const override { return "ip"; }
  Result<std::unique_ptr<device::Endpoint>> open(const device::EndpointOptions& options) override {
    auto inner = inner_.open(options);
    if (!inner) return inner.status();
    return std::unique_ptr<device::Endpoint>(
        std::make_unique<WatchedEndpoint>(std::move(*inner), polls_));
  }

 private:
  Polls& polls_;
  device::ip::IpDevice inner_{loopback_options()};
};

TEST(CommunicatorEnd, ClosingThread_ownsTheEngineWhenItPolls) {
  auto bootstraps = runtime::make_local_bootstraps(2);
  const auto run = [&](std::uint32_t rank) {
    Polls polls;
    CommunicatorOptions options = patient();
    options.device = std::make_shared<WatchedDevice>(polls);
    auto made = runtime::CommunicatorImpl::create(*bootstraps[rank], options, nullptr, {});
    ASSERT_TRUE(made.ok()) << made.status().to_string();
    const std::shared_ptr<runtime::Progress> progress = (*made)->progress();
    progress->with_engine([&] { polls.progress = progress; });
    EXPECT_TRUE((*made)->finalize(kLong));
    EXPECT_GT(polls.all, 0);
    EXPECT_EQ(polls.owning, polls.all);
    polls.progress.reset();
  };
  std::thread other(run, 1);
  run(0);
  other.join();
}

// ---- the next communicator ----------------------------------------------------------------------

TEST(CommunicatorEnd, FailedCommunicator_doesNotHinderANewCommunicatorOfTheSurvivors) {
  auto survivors = runtime::make_local_bootstraps(2);
  std::barrier ready(3);
  on_ranks(3, patient(), [&](Communicator& communicator) {
    finish(communicator.barrier());
    ready.arrive_and_wait();
    if (communicator.rank() == Rank{2}) return communicator.abort("this rank leaves the job");
    EXPECT_FALSE(end_of(communicator.barrier()));
    // The failed communicator still exists while the new one is used.
    auto next = runtime::create_communicator(*survivors[index(communicator.rank())], patient());
    ASSERT_TRUE(next.ok()) << next.status().to_string();
    Bytes all(2 * 10'007);
    finish(next->allgather(pattern(10'007, index(next->rank())), all));
    expect_blocks(all, 10'007, 2);
    EXPECT_TRUE(next->status());
    EXPECT_TRUE(next->finalize(kLong));
    EXPECT_FALSE(communicator.status());
  });
}

}  // namespace
}  // namespace tutti
