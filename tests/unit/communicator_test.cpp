// Tests the communicator over the real network stack, with the ranks as threads of this process.
#include "tutti/communicator.hpp"
#include "runtime/communicator/create.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "communicator_ranks.hpp"
#include "requirements.hpp"
#include "runtime/diagnostics/counter_aliases.hpp"

namespace tutti {
namespace {

using namespace test;

constexpr std::array kAlgorithms{Algorithm::multicast, Algorithm::ring};

/// The index of the first byte in which two buffers differ, so that a failed check prints one
/// number instead of both buffers.
std::size_t first_difference(std::span<const std::byte> a, std::span<const std::byte> b) {
  return static_cast<std::size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first -
                                  a.begin());
}

void leave(Communicator& communicator) { finish(communicator.barrier()); }

void check_broadcast(Communicator& communicator, std::size_t size, std::uint32_t root,
                     Algorithm algorithm) {
  const Bytes wanted = pattern(size, 1000 + root);
  Bytes buffer = index(communicator.rank()) == root ? wanted : Bytes(size);
  finish(communicator.broadcast(buffer, rank_of(root), {algorithm, true}));
  EXPECT_EQ(first_difference(buffer, wanted), size)
      << "broadcast of " << size << " bytes from rank " << root << " at rank "
      << index(communicator.rank());
}

void check_allgather(Communicator& communicator, std::size_t size, Algorithm algorithm,
                     bool in_place) {
  const std::uint32_t rank = index(communicator.rank());
  const Bytes own = pattern(size, 2000 + rank);
  Bytes all(size * communicator.size());
  std::span<const std::byte> source = own;
  if (in_place) {
    const auto part = std::span(all).subspan(rank * size, size);
    std::copy(own.begin(), own.end(), part.begin());
    source = part;
  }
  finish(communicator.allgather(source, all, {algorithm, true}));
  for (std::uint32_t r = 0; r < communicator.size(); ++r) {
    const auto block = std::span<const std::byte>(all).subspan(r * size, size);
    EXPECT_EQ(first_difference(block, pattern(size, 2000 + r)), size)
        << "block " << r << " of " << size << " bytes at rank " << rank
        << (in_place ? ", in place" : "");
  }
}

class Ranks : public testing::TestWithParam<std::uint32_t> {};

INSTANTIATE_TEST_SUITE_P(Communicator, Ranks, testing::Values(1u, 2u, 3u, 4u, 5u, 8u),
                         [](const auto& one) { return "P" + std::to_string(one.param); });

TEST_P(Ranks, BroadcastFromEveryRootDeliversTheMessage) {
  on_ranks(GetParam(), patient(), [](Communicator& communicator) {
    for (const Algorithm algorithm : kAlgorithms) {
      for (const std::size_t size : {0u, 1u, 7u, 1499u, 20'011u, 131'071u}) {
        for (std::uint32_t root = 0; root < communicator.size(); ++root) {
          check_broadcast(communicator, size, root, algorithm);
        }
      }
      check_broadcast(communicator, (1u << 20) - 1, communicator.size() - 1, algorithm);
    }
    leave(communicator);
  });
}

TEST_P(Ranks, Allgather_inPlaceOrWithTwoBuffers_deliversAllBlocks) {
  on_ranks(GetParam(), patient(), [](Communicator& communicator) {
    for (const Algorithm algorithm : kAlgorithms) {
      for (const std::size_t size : {0u, 1u, 7u, 1499u, 20'011u, 131'071u}) {
        check_allgather(communicator, size, algorithm, false);
        check_allgather(communicator, size, algorithm, true);
      }
    }
    check_allgather(communicator, (1u << 20) - 1, Algorithm::multicast, false);
    leave(communicator);
  });
}

TEST_P(Ranks, Collectives_withAnyNumberOfSubgroupsAndChains_deliverTheirData) {
  for (std::uint32_t subgroups = 1; subgroups <= 4; ++subgroups) {
    for (std::uint32_t chains = 1; chains <= GetParam(); ++chains) {
      CommunicatorOptions options = patient();
      options.subgroups = subgroups;
      options.chains = chains;
      SCOPED_TRACE(testing::Message() << "S=" << subgroups << " M=" << chains);
      on_ranks(GetParam(), options, [](Communicator& communicator) {
        check_broadcast(communicator, 50'021, communicator.size() - 1, Algorithm::multicast);
        check_allgather(communicator, 30'011, Algorithm::multicast, false);
        check_allgather(communicator, 3, Algorithm::multicast, true);
        leave(communicator);
      });
    }
  }
}

TEST(Communicator, MulticastCollectivesSendTheirDataByMulticast) {
  on_ranks(3, patient(), [](Communicator& communicator) {
    const std::uint32_t rank = index(communicator.rank());
    const auto sent = [&] {
      for (const auto& [name, value] : communicator.counters()) {
        if (name == "device_multicast_bytes_sent") return value;
      }
      ADD_FAILURE() << "no counter device_multicast_bytes_sent";
      return std::uint64_t{0};
    };
    const std::uint64_t before = sent();
    check_broadcast(communicator, 100'003, 0, Algorithm::multicast);
    EXPECT_GE(sent() - before, rank == 0 ? 100'003u : 0u);
    const bool uc = communicator.describe().find("UC multicast") != std::string::npos;
    const char* wanted = std::getenv("TUTTI_MULTICAST");
    EXPECT_EQ(uc, wanted != nullptr && std::string(wanted) == "uc");
    EXPECT_EQ(counters_of(communicator)["device_uc_messages_completed"] > 0, uc && rank != 0);
    const std::uint64_t between = sent();
    check_broadcast(communicator, 100'003, 0, Algorithm::ring);
    EXPECT_EQ(sent(), between);
    leave(communicator);
  });
}

TEST(Communicator, Datagrams_carryTheIntegrityWordThatTheOptionsAskFor) {
  for (const bool authenticate : {true, false}) {
    CommunicatorOptions options = patient();
    options.authenticate = authenticate;
    on_ranks(3, options, [authenticate](Communicator& communicator) {
      const std::string said = communicator.describe();
      const auto has = [&said](const char* word) { return said.find(word) != std::string::npos; };
      EXPECT_EQ(has("datagrams carry a keyed tag"), authenticate) << said;
      EXPECT_EQ(has("datagrams carry a CRC-32C"), !authenticate) << said;
      check_broadcast(communicator, 100'003, 1, Algorithm::multicast);
      check_allgather(communicator, 10'007, Algorithm::ring, false);
      leave(communicator);
    });
  }
}

TEST(Communicator, CollectivesOverIpv6DeliverTheirData) {
  CommunicatorOptions options = patient();
  options.ipv6 = true;
  auto alone = runtime::make_local_bootstraps(1);
  if (const auto probe = runtime::create_communicator(*alone[0], options); !probe.ok()) {
    return test::skip_without("ipv6", probe.status().to_string());
  }
  on_ranks(3, options, [](Communicator& communicator) {
    const std::string said = communicator.describe();
    EXPECT_NE(said.find(" at ["), std::string::npos) << said;
    check_broadcast(communicator, 100'003, 2, Algorithm::multicast);
    check_allgather(communicator, 20'011, Algorithm::multicast, false);
    check_allgather(communicator, 20'011, Algorithm::ring, true);
    leave(communicator);
  });
}

TEST(Communicator, CompletionCallback_runsOnce_whenTheCollectiveEnds) {
  on_ranks(3, patient(), [](Communicator& communicator) {
    const std::uint32_t rank = index(communicator.rank());
    std::atomic<int> calls{0};
    Bytes buffer = rank == 0 ? pattern(70'001, 1) : Bytes(70'001);
    auto request = communicator.broadcast(buffer, rank_of(0));
    ASSERT_TRUE(request.ok());
    const auto count = [&](const Status& end) {
      EXPECT_TRUE(end.ok()) << end.to_string();
      ++calls;
    };
    ASSERT_TRUE(communicator.on_completion(*request, count).ok());
    const Status status = request->wait_for(kLong);
    ASSERT_TRUE(status.ok()) << status.to_string();
    leave(communicator);
    EXPECT_EQ(calls, 1);
    // A callback that is registered after the collective has ended runs at once.
    ASSERT_TRUE(communicator.on_completion(*request, count).ok());
    EXPECT_EQ(calls, 2);
  });
}

TEST(Communicator, CallbackMayStartACollectiveButNotWait) {
  on_ranks(3, patient(), [](Communicator& communicator) {
    const std::uint32_t rank = index(communicator.rank());
    Bytes first = rank == 0 ? pattern(70'001, 1) : Bytes(70'001);
    Bytes second = rank == 1 ? pattern(5'003, 2) : Bytes(5'003);
    std::optional<Request> next;
    Status waited;
    std::size_t counters = 0;
    auto request = communicator.broadcast(first, rank_of(0));
    ASSERT_TRUE(request.ok());
    const auto go_on = [&](const Status&) {
      auto started = communicator.broadcast(second, rank_of(1));
      ASSERT_TRUE(started.ok());
      waited = started->wait();
      counters = communicator.counters().size();
      next = *started;
    };
    ASSERT_TRUE(communicator.on_completion(*request, go_on).ok());
    ASSERT_TRUE(request->wait_for(kLong).ok());
    ASSERT_TRUE(next.has_value());
    EXPECT_EQ(waited.code(), Code::invalid_argument);
    EXPECT_NE(waited.message().find("waits for a collective"), std::string::npos)
        << waited.message();
    EXPECT_GT(counters, 40u);
    const Status status = next->wait_for(kLong);
    ASSERT_TRUE(status.ok()) << status.to_string();
    EXPECT_EQ(second, pattern(5'003, 2));
    leave(communicator);
  });
}

TEST(Communicator, BackgroundThreadCompletesACollectiveWithoutAWait) {
  on_ranks(3, patient(), [](Communicator& communicator) {
    const std::uint32_t rank = index(communicator.rank());
    std::atomic<bool> over{false};
    Bytes buffer = rank == 2 ? pattern(70'001, 5) : Bytes(70'001);
    auto request = communicator.broadcast(buffer, rank_of(2));
    ASSERT_TRUE(request.ok());
    const auto tell = [&](const Status& end) {
      EXPECT_TRUE(end.ok()) << end.to_string();
      over = true;
      over.notify_one();
    };
    ASSERT_TRUE(communicator.on_completion(*request, tell).ok());
    over.wait(false);
    EXPECT_EQ(buffer, pattern(70'001, 5));
    leave(communicator);
  });
}

TEST(Communicator, WaitFor_afterAnEarlierTimeout_completesTheRequest) {
  auto others = std::make_shared<std::atomic<int>>(0);
  on_ranks(3, patient(), [&](Communicator& communicator) {
    const std::uint32_t rank = index(communicator.rank());
    Bytes buffer = rank == 0 ? pattern(5'003, 9) : Bytes(5'003);
    if (rank == 0) {  // the root calls last, after a wait of each other rank has timed out
      while (others->load() < 2) others->wait(others->load());
    }
    auto request = communicator.broadcast(buffer, rank_of(0));
    ASSERT_TRUE(request.ok());
    if (rank != 0) {
      const Status early = request->wait_for(std::chrono::milliseconds(2));
      EXPECT_EQ(early.code(), Code::timeout) << early.to_string();
      EXPECT_NE(early.message().find("rank " + std::to_string(rank)), std::string::npos);
      EXPECT_FALSE(request->progress().done);
      ++*others;
      others->notify_all();
    }
    const Status status = request->wait_for(kLong);
    EXPECT_TRUE(status.ok()) << status.to_string();
    EXPECT_EQ(buffer, pattern(5'003, 9));
    EXPECT_TRUE(request->progress().done);
    leave(communicator);
  });
}

TEST(Communicator, ProgressOfARequest_countsTheTasksOfItsSchedule) {
  auto others = std::make_shared<std::atomic<int>>(0);
  on_ranks(3, patient(), [&](Communicator& communicator) {
    const std::uint32_t rank = index(communicator.rank());
    const Bytes own = pattern(4'000, rank);
    Bytes all(own.size() * 3);
    if (rank == 0) {  // rank 0 calls after the others have read the progress of their calls
      while (others->load() < 2) others->wait(others->load());
    }
    auto request = communicator.allgather(own, all, {.algorithm = Algorithm("ring")});
    ASSERT_TRUE(request.ok());
    const std::uint64_t tasks = request->progress().chunks_total;
    EXPECT_GE(tasks, 2u * 2) << "sends and receives of two rounds";
    if (rank != 0) {
      // The first message of a rank depends on no other rank, so the rank can send it although rank
      // 0 has not called yet.
      while (request->progress().chunks_present == 0) {
        EXPECT_EQ(request->wait_for(std::chrono::milliseconds(1)).code(), Code::timeout);
      }
      const ProgressReport half = request->progress();
      EXPECT_FALSE(half.done);
      EXPECT_LT(half.chunks_present, half.chunks_total);
      ++*others;
      others->notify_all();
    }
    const Status status = request->wait_for(kLong);
    EXPECT_TRUE(status.ok()) << status.to_string();
    EXPECT_TRUE(request->progress().done);
    EXPECT_EQ(request->progress().chunks_present, tasks);
    EXPECT_EQ(request->progress().chunks_total, tasks);
    leave(communicator);
  });
}

TEST(Communicator, RequestTestedInALoop_makesProgressAndCompletes) {
  on_ranks(3, patient(), [](Communicator& communicator) {
    const std::uint32_t rank = index(communicator.rank());
    const Bytes own = pattern(20'011, rank);
    Bytes all(own.size() * 3);
    auto request = communicator.allgather(own, all, {.will_wait = true});
    ASSERT_TRUE(request.ok());
    while (!request->test()) std::this_thread::yield();
    EXPECT_TRUE(request->wait().ok());
    EXPECT_EQ(request->progress().chunks_present, request->progress().chunks_total);
    for (std::uint32_t r = 0; r < 3; ++r) {
      const auto block = std::span<const std::byte>(all).subspan(r * own.size(), own.size());
      EXPECT_EQ(first_difference(block, pattern(own.size(), r)), own.size());
    }
    leave(communicator);
  });
}

TEST(Communicator, OutstandingCollectivesMayBeWaitedForInReverseOrder) {
  constexpr std::uint32_t kCount = 12;
  on_ranks(4, patient(), [](Communicator& communicator) {
    const std::uint32_t rank = index(communicator.rank());
    std::vector<Bytes> buffers;
    std::vector<Request> requests;
    for (std::uint32_t i = 0; i < kCount; ++i) {
      const std::size_t size = 1000 * i + 13;
      buffers.push_back(rank == i % 4 ? pattern(size, i) : Bytes(size));
    }
    for (std::uint32_t i = 0; i < kCount; ++i) {
      auto request = communicator.broadcast(buffers[i], rank_of(i % 4), {kAlgorithms[i / 2 % 2]});
      ASSERT_TRUE(request.ok()) << request.status().to_string();
      requests.push_back(*request);
    }
    for (std::uint32_t i = kCount; i-- > 0;) {
      const Status status = requests[i].wait_for(kLong);
      ASSERT_TRUE(status.ok()) << "broadcast " << i << ": " << status.to_string();
      EXPECT_EQ(buffers[i], pattern(buffers[i].size(), i)) << "broadcast " << i;
    }
    leave(communicator);
  });
}

void eight_duplicates_from_eight_threads(const CommunicatorOptions& options) {
  constexpr std::uint32_t kSize = 3;
  constexpr std::uint32_t kDuplicates = 8;
  auto bootstraps = runtime::make_local_bootstraps(kSize);
  std::vector<std::thread> ranks;
  for (std::uint32_t rank = 0; rank < kSize; ++rank) {
    ranks.emplace_back([&, rank] {
      auto first = runtime::create_communicator(*bootstraps[rank], options);
      ASSERT_TRUE(first.ok()) << first.status().to_string();
      std::vector<Communicator> duplicates;
      for (std::uint32_t i = 0; i < kDuplicates; ++i) {
        auto one = first->duplicate(options);
        ASSERT_TRUE(one.ok()) << "duplicate " << i << ": " << one.status().to_string();
        duplicates.push_back(std::move(*one));
      }
      std::vector<std::thread> users;
      for (std::uint32_t i = 0; i < kDuplicates; ++i) {
        users.emplace_back([&, i] {
          for (std::uint32_t root = 0; root < kSize; ++root) {
            check_broadcast(duplicates[i], 10'007 + i, root, kAlgorithms[i % 2]);
          }
          check_allgather(duplicates[i], 5'003 + i, Algorithm::multicast, i % 2 == 0);
          leave(duplicates[i]);
        });
      }
      for (std::thread& user : users) user.join();
      leave(*first);
    });
  }
  for (std::thread& rank : ranks) rank.join();
}

TEST(Communicator, CollectivesOfEightThreads_eachOnItsOwnDuplicate_complete) {
  eight_duplicates_from_eight_threads(patient());
}

std::uint64_t counter(const Communicator& communicator, const std::string& name) {
  for (const auto& [one, value] : communicator.counters()) {
    if (one == name) return value;
  }
  ADD_FAILURE() << "there is no counter " << name;
  return 0;
}

struct Shape {
  std::uint32_t workers;
  std::uint32_t subgroups;
};

class Workers : public testing::TestWithParam<Shape> {
 protected:
  static CommunicatorOptions options() {
    CommunicatorOptions options = patient();
    options.receive_workers = GetParam().workers;
    options.subgroups = GetParam().subgroups;
    return options;
  }
};

INSTANTIATE_TEST_SUITE_P(Communicator, Workers,
                         testing::Values(Shape{1, 1}, Shape{1, 2}, Shape{1, 4}, Shape{2, 2},
                                         Shape{2, 3}, Shape{2, 4}, Shape{4, 4}),
                         [](const auto& one) {
                           return "W" + std::to_string(one.param.workers) + "S" +
                                  std::to_string(one.param.subgroups);
                         });

TEST_P(Workers, WorkersReceiveAllChunks) {
  on_ranks(3, options(), [](Communicator& communicator) {
    const std::uint32_t rank = index(communicator.rank());
    EXPECT_NE(communicator.describe().find(std::to_string(GetParam().workers) + " receive worker"),
              std::string::npos)
        << communicator.describe();
    leave(communicator);  // without this barrier, a chunk might arrive before the workers start
    for (const std::size_t size : {0u, 1u, 1499u, 131'071u, (1u << 20) - 1}) {
      for (std::uint32_t root = 0; root < 3; ++root) {
        check_broadcast(communicator, size, root, Algorithm::multicast);
      }
      check_allgather(communicator, size, Algorithm::multicast, rank % 2 == 0);
      check_allgather(communicator, size, Algorithm::ring, false);
    }
    leave(communicator);
    EXPECT_GT(counter(communicator, "chunks_received_by_workers"), 0u);
    EXPECT_EQ(counter(communicator, "chunks_received_by_workers"),
              counter(communicator, "chunks_received"));
    EXPECT_GT(counter(communicator, "receive_worker_batches"), 0u);
    EXPECT_EQ(counter(communicator, "chunks_malformed"), 0u);
  });
}

TEST_P(Workers, WorkersServeEightDuplicates) { eight_duplicates_from_eight_threads(options()); }

TEST_P(Workers, WorkersReleaseTheBufferOfAnAbortedCollective) {
  // The root sends until the other ranks have aborted. Their buffers are then freed at once, so
  // that a sanitizer detects any later write.
  on_ranks(3, options(), [&](Communicator& communicator) {
    const std::uint32_t rank = index(communicator.rank());
    for (std::uint32_t i = 0; i < 20; ++i) {
      check_broadcast(communicator, 5'003, i % 3, Algorithm::multicast);
    }
    Bytes buffer(8u << 20);
    auto request = communicator.broadcast(buffer, rank_of(0));
    if (rank == 2) {
      ASSERT_TRUE(request.ok()) << request.status().to_string();
      while (request->progress().chunks_present < 20 && !request->test()) {
      }
      communicator.abort("in the middle");
    }
    // If a rank starts its call after the abort, the start itself fails.
    const Status end = request ? request->wait_for(kLong) : request.status();
    buffer = Bytes();
    EXPECT_NE(end.code(), Code::timeout) << end.to_string();
    EXPECT_TRUE(end.ok() || end.message().find("rank 2") != std::string::npos) << end.to_string();
    auto later = communicator.barrier();
    const Status again = later.ok() ? later->wait_for(kLong) : later.status();
    EXPECT_FALSE(again.ok());
    EXPECT_NE(again.code(), Code::timeout) << again.to_string();
  });
}

TEST(Workers, CommunicatorOfOneRank_hasNoWorkers) {
  CommunicatorOptions options = patient();
  options.receive_workers = 2;
  on_ranks(1, options, [](Communicator& communicator) {
    check_allgather(communicator, 1'003, Algorithm::multicast, false);
    const std::string said = communicator.describe();
    EXPECT_NE(said.find("received by the owner of the engine"), std::string::npos) << said;
  });
}

TEST(Workers, OwnerReceivesIfThereAreNoWorkers) {
  on_ranks(2, patient(), [](Communicator& communicator) {
    check_allgather(communicator, 100'003, Algorithm::multicast, false);
    leave(communicator);
    EXPECT_GT(counter(communicator, "chunks_received"), 0u);
    EXPECT_EQ(counter(communicator, "chunks_received_by_workers"), 0u);
  });
}

TEST(WorkersByEnvironment, NumberOfWorkers_isReadFromTheEnvironment) {
  ASSERT_EQ(setenv("TUTTI_RECEIVE_WORKERS", "2", 1), 0);
  CommunicatorOptions options = patient();
  options.subgroups = 2;
  on_ranks(2, options, [](Communicator& communicator) {
    leave(communicator);  // chunks that arrive during the creation are not received by workers
    check_allgather(communicator, 100'003, Algorithm::multicast, false);
    leave(communicator);
    EXPECT_GT(counter(communicator, "chunks_received_by_workers"), 0u);
    EXPECT_NE(communicator.describe().find("2 receive worker"), std::string::npos);
  });
  ASSERT_EQ(setenv("TUTTI_RECEIVE_WORKERS", "two", 1), 0);
  auto bootstraps = runtime::make_local_bootstraps(1);
  const auto refused = runtime::create_communicator(*bootstraps[0], patient());
  unsetenv("TUTTI_RECEIVE_WORKERS");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().code(), Code::invalid_argument);
  EXPECT_NE(refused.status().message().find("TUTTI_RECEIVE_WORKERS"), std::string::npos);
}

TEST(Communicator, WrongArguments_areRefused_andTheCommunicatorStillWorks) {
  on_ranks(2, patient(), [](Communicator& communicator) {
    Bytes own(10);
    Bytes all(19);
    const auto short_all = communicator.allgather(own, all);
    ASSERT_FALSE(short_all.ok());
    EXPECT_EQ(short_all.status().code(), Code::invalid_argument);
    EXPECT_NE(short_all.status().message().find("need 20"), std::string::npos);
    const auto no_root = communicator.broadcast(own, rank_of(2));
    ASSERT_FALSE(no_root.ok());
    EXPECT_EQ(no_root.status().code(), Code::invalid_argument);
    Request empty;
    EXPECT_EQ(empty.wait().code(), Code::invalid_argument);
    EXPECT_EQ(empty.wait_for(kLong).code(), Code::invalid_argument);
    EXPECT_EQ(communicator.on_completion(empty, [](const Status&) {}).code(),
              Code::invalid_argument);
    check_broadcast(communicator, 1'003, 1, Algorithm::multicast);
    leave(communicator);
  });
}

/// Creates a communicator of two ranks with different options. Expects that both ranks get an error
/// that names `option`.
void expect_disagreement(const std::string& option,
                         const std::function<void(CommunicatorOptions&)>& change) {
  auto bootstraps = runtime::make_local_bootstraps(2);
  std::vector<std::thread> threads;
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      CommunicatorOptions options = patient();
      if (rank == 1) change(options);
      const auto refused = runtime::create_communicator(*bootstraps[rank], options);
      ASSERT_FALSE(refused.ok());
      EXPECT_EQ(refused.status().code(), Code::invalid_argument);
      EXPECT_NE(refused.status().message().find(option), std::string::npos)
          << refused.status().to_string();
      EXPECT_EQ(ranks_of(refused.status()), (std::vector<std::uint32_t>{0, 1}));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Communicator, DifferentOptionsAtTwoRanks_areNamedAtBoth) {
  expect_disagreement("subgroups", [](auto& options) { options.subgroups = 2; });
  expect_disagreement("retain_bytes", [](auto& options) { options.retain_bytes = 1000; });
  expect_disagreement("always_barrier", [](auto& options) { options.always_barrier = true; });
}

TEST(Communicator, MulticastOption_differentAtTwoRanksOrUnknown_isRefused) {
  auto bootstraps = runtime::make_local_bootstraps(2);
  std::vector<std::thread> threads;
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      CommunicatorOptions options = patient();
      options.device_name = "ip";
      options.multicast = rank == 0 ? "ud" : "uc";
      const auto refused = runtime::create_communicator(*bootstraps[rank], options);
      ASSERT_FALSE(refused.ok());
      EXPECT_EQ(refused.status().code(), Code::invalid_argument);
      EXPECT_NE(refused.status().message().find("TUTTI_MULTICAST): ud at rank 0"),
                std::string::npos)
          << refused.status().to_string();
    });
  }
  for (std::thread& thread : threads) thread.join();
  CommunicatorOptions options = patient();
  options.multicast = "broadcast";
  const auto unknown = runtime::create_communicator(*bootstraps[0], options);
  ASSERT_FALSE(unknown.ok());
  EXPECT_NE(
      unknown.status().message().find("\"broadcast\": use the multicast 'ud' or 'uc', or 'none'"),
      std::string::npos)
      << unknown.status().to_string();
}

TEST(Communicator, ChunkByUc_mayBeLongerThanADatagram) {
  CommunicatorOptions options = patient();
  options.device_name = "ip";
  options.multicast = "uc";
  for (const std::uint32_t chunk_bytes : {0u, 1'000u, 20'000u}) {
    options.chunk_bytes = chunk_bytes;
    on_ranks(3, options, [&](Communicator& communicator) {
      constexpr std::size_t kBytes = 500'000;
      const std::uint64_t chunk = chunk_bytes == 0 ? 45 * 1408 : chunk_bytes;
      check_allgather(communicator, kBytes, Algorithm::multicast, false);
      leave(communicator);
      const std::uint64_t messages = 2 * ((kBytes + chunk - 1) / chunk);
      // A slow machine may lose chunks, which are then fetched by READ. Each chunk that arrived by
      // multicast must have arrived as a UC message.
      const std::uint64_t received = counter(communicator, "chunks_received");
      EXPECT_GT(received, 0u);
      EXPECT_GE(counter(communicator, "device_uc_messages_completed"), received);
      EXPECT_EQ(received + counter(communicator, "chunks_fetched"), messages);
    });
  }
}

TEST(Communicator, Abort_endsCallsOfThePeers_withAnErrorThatNamesTheAbortingRank) {
  std::atomic<std::uint32_t> started{0};
  on_ranks(3, patient(), [&](Communicator& communicator) {
    const std::uint32_t rank = index(communicator.rank());
    if (rank == 1) {
      for (auto seen = started.load(); seen < 2; seen = started.load()) started.wait(seen);
      communicator.abort("had enough");
      auto request = communicator.barrier();
      const Status own = request.ok() ? request->wait_for(kLong) : request.status();
      EXPECT_EQ(own.code(), Code::aborted) << own.to_string();
      EXPECT_NE(own.message().find("had enough"), std::string::npos) << own.to_string();
      EXPECT_EQ(ranks_of(own), std::vector<std::uint32_t>{1});
      return;
    }
    Bytes buffer(50'021);
    auto request = communicator.broadcast(buffer, rank_of(1));
    ASSERT_TRUE(request.ok());
    ++started;
    started.notify_all();
    const Status end = request->wait_for(kLong);
    EXPECT_TRUE(end.code() == Code::peer_failed || end.code() == Code::aborted) << end.to_string();
    EXPECT_NE(end.message().find("rank 1"), std::string::npos) << end.to_string();
    EXPECT_EQ(ranks_of(end), std::vector<std::uint32_t>{1});
    // Every collective after the abort must fail at once.
    auto later = communicator.barrier();
    const Status again = later.ok() ? later->wait_for(kLong) : later.status();
    EXPECT_EQ(again.code(), end.code()) << again.to_string();
    EXPECT_EQ(ranks_of(again), std::vector<std::uint32_t>{1});
  });
}

TEST(Communicator, FlightRecord_listsTheCollectives_andDescribeNamesTheRankCount) {
  on_ranks(2, patient(), [](Communicator& communicator) {
    check_broadcast(communicator, 1'003, 0, Algorithm::multicast);
    leave(communicator);
    const std::string record = communicator.flight_record();
    EXPECT_NE(record.find("broadcast"), std::string::npos) << record;
    EXPECT_NE(record.find("barrier"), std::string::npos) << record;
    EXPECT_NE(communicator.describe().find("of 2"), std::string::npos);
  });
}

TEST(Communicator, FlightDumps_ofSeveralCommunicators_haveFilesOfTheirOwn) {
  std::string directory = testing::TempDir() + "flight-XXXXXX";
  ASSERT_NE(::mkdtemp(directory.data()), nullptr);
  ASSERT_EQ(setenv("TUTTI_FLIGHT_RECORDER", directory.c_str(), 1), 0);
  // A rank may abort only after its peer's earlier call has ended, or that call would fail, too.
  std::barrier both_are_idle(2);
  const auto fail_one = [&](Communicator& communicator) {
    both_are_idle.arrive_and_wait();
    communicator.abort("a dump is wanted");
    EXPECT_FALSE(communicator.barrier().ok());
  };
  on_ranks(2, patient(), [&](Communicator& communicator) {
    auto copy = communicator.duplicate();
    ASSERT_TRUE(copy.ok()) << copy.status().to_string();
    fail_one(*copy);
    fail_one(communicator);
  });
  on_ranks(2, patient(), fail_one);
  unsetenv("TUTTI_FLIGHT_RECORDER");
  std::size_t files = 0;
  for (const auto& one : std::filesystem::directory_iterator(directory)) {
    EXPECT_EQ(one.path().extension(), ".json") << one.path();
    ++files;
  }
  EXPECT_EQ(files, 3u * 2);  // the communicator, its copy and the later one, with two ranks each
  std::filesystem::remove_all(directory);
}

TEST(Communicator, RenamedCounter_isListedUnderBothNames) {
  on_ranks(2, patient(), [](Communicator& communicator) {
    check_broadcast(communicator, 1'003, 0, Algorithm::multicast);
    leave(communicator);
    const Counters counters = counters_of(communicator);
    for (const auto& [old_name, name] : runtime::kCounterAliases) {
      ASSERT_EQ(counters.count(std::string(name)), 1u) << name;
      ASSERT_EQ(counters.count(std::string(old_name)), 1u) << old_name;
      EXPECT_EQ(counters.at(std::string(old_name)), counters.at(std::string(name))) << name;
    }
  });
}

TEST(Communicator, Duplicate_withoutABootstrap_exchangesOverTheCommunicatorItself) {
  on_ranks(3, patient(), [](Communicator& communicator) {
    auto duplicate = communicator.duplicate(patient());
    ASSERT_TRUE(duplicate.ok()) << duplicate.status().to_string();
    EXPECT_EQ(duplicate->rank(), communicator.rank());
    EXPECT_EQ(duplicate->size(), communicator.size());
    check_broadcast(*duplicate, 10'007, 1, Algorithm::automatic);
    leave(*duplicate);
    leave(communicator);
  });
}

TEST(CommunicatorOptions, KeepBytes_isADeprecatedNameOfRetainBytes) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  CommunicatorOptions options;
  EXPECT_EQ(options.keep_bytes, options.retain_bytes);
  options.keep_bytes = 1234;
#pragma GCC diagnostic pop
  const CommunicatorOptions copy = options;
  EXPECT_EQ(copy.retain_bytes, 1234u);
}

TEST(CommunicatorTimeouts, LargestDuration_meansNoLimit_andZeroIsRefused) {
  CommunicatorOptions options = patient();
  options.peer_timeout = options.create_timeout = Nanoseconds::max();
  on_ranks(3, options, [](Communicator& communicator) {
    finish(communicator.barrier({.algorithm = "dissemination"}));
    EXPECT_TRUE(communicator.status().ok()) << communicator.status().to_string();
  });
  options = patient();
  options.peer_timeout = Nanoseconds(0);
  auto alone = runtime::make_local_bootstraps(1);
  const auto refused = runtime::create_communicator(*alone.front(), options);
  EXPECT_EQ(refused.status().code(), Code::invalid_argument);
  EXPECT_NE(refused.status().message().find("peer_timeout is 0 ns"), std::string::npos)
      << refused.status().to_string();
}

}  // namespace
}  // namespace tutti
