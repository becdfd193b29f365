// Tests every kind of bootstrap with 1 to 8 ranks, and its errors when ranks are missing.
#include <gtest/gtest.h>

#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <latch>
#include <mutex>
#include <new>
#include <regex>

#include "bootstrap_ranks.hpp"
#include "requirements.hpp"
#include "runtime/bootstrap/callback_bootstrap.hpp"
#include "runtime/bootstrap/env_bootstrap.hpp"
#include "runtime/bootstrap/file_bootstrap.hpp"
#include "runtime/bootstrap/local_bootstrap.hpp"
#include "runtime/bootstrap/store/store_client.hpp"
#include "runtime/bootstrap/store/store_frame.hpp"
#include "runtime/bootstrap/text.hpp"
#include "runtime/bootstrap/unique_id.hpp"

namespace tutti::runtime::test {
namespace {

class Directory {
 public:
  Directory() {
    path_ = std::filesystem::temp_directory_path() / ("tutti-bootstrap-" + random_hex(8).value());
  }
  ~Directory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::string path() const { return path_.string(); }
  std::size_t count() const {
    std::size_t entries = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(path_)) ++entries;
    return entries;
  }

 private:
  std::filesystem::path path_;
};

StoreOptions store_options(std::uint16_t port, std::uint32_t rank, std::uint32_t size,
                           Nanoseconds timeout = kLong) {
  StoreOptions options;
  options.endpoint = {"127.0.0.1", port};
  options.rank = rank_of(rank);
  options.size = size;
  options.token = make_job_token("a job").value();
  options.method = "test";
  options.timeout = timeout;
  return options;
}

class EverySize : public testing::TestWithParam<std::uint32_t> {};
INSTANTIATE_TEST_SUITE_P(Ranks, EverySize, testing::Range(1u, 9u));

TEST_P(EverySize, Ranks_exchangeContributionsThroughAStore) {
  const std::uint32_t size = GetParam();
  const std::uint16_t port = free_port();
  EXPECT_EQ(no_problems(size), exchange_problems(size, [&](std::uint32_t rank) {
              return connect_store(store_options(port, rank, size));
            }));
}

TEST_P(EverySize, Ranks_readTheEnvironment_andExchangeContributions) {
  const std::uint32_t size = GetParam();
  const std::string port = std::to_string(free_port());
  EXPECT_EQ(no_problems(size), exchange_problems(size, [&](std::uint32_t rank) {
              return bootstrap_from_env(environment_of({{"RANK", std::to_string(rank)},
                                                        {"WORLD_SIZE", std::to_string(size)},
                                                        {"MASTER_ADDR", "localhost"},
                                                        {"MASTER_PORT", "1"},
                                                        {"TUTTI_MASTER_PORT", port}}),
                                        kLong);
            }));
}

TEST_P(EverySize, Ranks_joinByUniqueId_andExchangeContributions) {
  const std::uint32_t size = GetParam();
  const auto id = make_unique_id("127.0.0.1");
  ASSERT_TRUE(id.ok()) << id.status().to_string();
  EXPECT_EQ(no_problems(size), exchange_problems(size, [&](std::uint32_t rank) {
              return join_unique_id(*id, rank_of(rank), size, kLong);
            }));
}

TEST_P(EverySize, Ranks_exchangeContributionsThroughFiles_andLeaveNoFile) {
  const std::uint32_t size = GetParam();
  const Directory directory;
  EXPECT_EQ(no_problems(size), exchange_problems(size, [&](std::uint32_t rank) {
              return meet_in_directory({directory.path(), "run-1", rank_of(rank), size, kLong});
            }));
  EXPECT_EQ(directory.count(), 0u);
}

// A rank that has finished one bootstrap begins the next while other ranks still remove the files
// of the finished one.
TEST_P(EverySize, BootstrapsInOneDirectory_runBackToBack) {
  const std::uint32_t size = GetParam();
  const Directory directory;
  std::vector<std::thread> ranks;
  for (std::uint32_t rank = 0; rank < size; ++rank) {
    ranks.emplace_back([&, rank] {
      for (int meeting = 0; meeting < 20; ++meeting) {
        const auto made =
            meet_in_directory({directory.path(), "run-2", rank_of(rank), size, kLong});
        ASSERT_TRUE(made.ok()) << made.status().to_string();
        ASSERT_TRUE((*made)->allgather(Bytes(3), kLong).ok());
      }
    });
  }
  for (std::thread& rank : ranks) rank.join();
  EXPECT_EQ(directory.count(), 0u);
}

TEST_P(EverySize, RanksThatAreThreads_exchangeContributions) {
  const std::uint32_t size = GetParam();
  auto bootstraps = make_local_bootstraps(size);
  const auto problems = on_ranks(
      size, [&](std::uint32_t rank) { return exchange_problem(*bootstraps[rank], rank, size); });
  EXPECT_EQ(no_problems(size), problems);
}

/// An allgather callback with the semantics of MPI_Allgather: it exchanges contributions of equal
/// size. The exchange runs over another bootstrap.
AllgatherCallback equal_parts_over(Bootstrap& below) {
  return [&below](std::span<const std::byte> mine, std::span<std::byte> all, Nanoseconds timeout) {
    const auto parts = below.allgather(mine, timeout);
    if (!parts.ok()) return parts.status();
    for (std::size_t i = 0; i < parts->size(); ++i) {
      if ((*parts)[i].size() != mine.size())
        return Status(Code::internal, "the contributions differ in size");
      std::copy((*parts)[i].begin(), (*parts)[i].end(),
                all.begin() + static_cast<std::ptrdiff_t>(i * mine.size()));
    }
    return Status();
  };
}

TEST_P(EverySize, Ranks_exchangeContributionsByCallback) {
  const std::uint32_t size = GetParam();
  auto below = make_local_bootstraps(size);
  EXPECT_EQ(no_problems(size), exchange_problems(size, [&](std::uint32_t rank) {
              return make_callback_bootstrap(rank_of(rank), size, equal_parts_over(*below[rank]));
            }));
}

TEST(BootstrapStore, TimeoutNamesTheRanksThatDidNotJoin) {
  const std::uint16_t port = free_port();
  const auto problems = on_ranks(3, [&](std::uint32_t rank) {
    const std::uint32_t present[] = {0, 1, 4};
    return connect_store(store_options(port, present[rank], 8, kPatience)).status();
  });
  for (const Status& status : problems) {
    EXPECT_EQ(status.code(), Code::timeout);
    EXPECT_EQ(status.message(),
              "ranks 2, 3, 5-7 did not join at 127.0.0.1:" + std::to_string(port) +
                  " within 2 s: check that all ranks run, or give them a longer timeout");
  }
}

TEST(BootstrapStore, RankThatTimesOutEarly_doesNotEndTheWaitOfOtherRanks) {
  const std::uint16_t port = free_port();
  std::latch gave_up(1);
  const auto ends = on_ranks(4, [&](std::uint32_t rank) {
    if (rank == 1) {
      const Status early = connect_store(store_options(port, rank, 4, kShort)).status();
      EXPECT_EQ(early.code(), Code::timeout);
      EXPECT_NE(early.message().find("within 300 ms"), std::string::npos) << early.message();
      gave_up.count_down();
    }
    if (rank == 3) gave_up.wait();
    return connect_store(store_options(port, rank, 4)).status().to_string();
  });
  EXPECT_EQ(ends, std::vector<std::string>(4, "ok"));
}

TEST(BootstrapStore, UnreachableRank0IsReported) {
  const auto made = connect_store(store_options(free_port(), 1, 2, kShort));
  EXPECT_EQ(made.status().code(), Code::timeout);
  EXPECT_NE(made.status().message().find("rank 1 could not join rank 0"), std::string::npos)
      << made.status().message();
}

TEST(BootstrapStore, Rank0MayJoinLast) {
  const std::uint16_t port = free_port();
  std::latch tried(1);
  EXPECT_EQ(no_problems(3), exchange_problems(3, [&](std::uint32_t rank) {
              if (rank == 0) tried.wait();
              if (rank == 1) {
                const auto early = connect_store(store_options(port, 1, 3, kShort));
                EXPECT_EQ(early.status().code(), Code::timeout) << "there is no store yet";
                tried.count_down();
              }
              return connect_store(store_options(port, rank, 3));
            }));
}

TEST(BootstrapStore, RanksExchangeOverIpv6) {
  const auto probe = listen_on({"::1", 0});
  if (!probe.ok()) return tutti::test::skip_without("ipv6", probe.status().to_string());
  const std::uint16_t port = free_port();
  EXPECT_EQ(no_problems(3), exchange_problems(3, [&](std::uint32_t rank) {
              StoreOptions options = store_options(port, rank, 3);
              options.endpoint.host = "::1";
              return connect_store(std::move(options));
            }));
}

TEST(BootstrapStore, PortInUse_isReported) {
  const auto taken = listen_on({"127.0.0.1", 0});
  ASSERT_TRUE(taken.ok());
  const auto made = connect_store(store_options(*bound_port(*taken), 0, 2));
  EXPECT_EQ(made.status().code(), Code::system);
  EXPECT_NE(made.status().message().find("another program owns the port"), std::string::npos);
}

TEST(BootstrapStore, TimeoutNamesTheRankThatMissesAnExchange) {
  const std::uint16_t port = free_port();
  std::vector<std::unique_ptr<Bootstrap>> ranks(3);
  const auto joined = on_ranks(3, [&](std::uint32_t rank) {
    auto bootstrap = connect_store(store_options(port, rank, 3));
    if (bootstrap.ok()) ranks[rank] = std::move(*bootstrap);
    return bootstrap.status();
  });
  for (const Status& status : joined) ASSERT_TRUE(status.ok()) << status.to_string();
  auto failures = on_ranks(
      2, [&](std::uint32_t rank) { return ranks[rank]->allgather({}, kPatience).status(); });
  // Rank 2 joins after the timeout and receives the same error as the other ranks.
  failures.push_back(ranks[2]->allgather({}, kLong).status());
  for (const Status& status : failures) {
    EXPECT_EQ(status.code(), Code::timeout);
    EXPECT_EQ(
        status.message(),
        "rank 2 did not join exchange 0 of the bootstrap at 127.0.0.1:" + std::to_string(port) +
            " within 2 s: check that all ranks run, or give them a longer timeout");
  }
}

TEST(BootstrapStore, ErrorNamesTheRankThatLeft) {
  const std::uint16_t port = free_port();
  const auto problems = on_ranks(3, [&](std::uint32_t rank) {
    auto bootstrap = connect_store(store_options(port, rank, 3));
    if (!bootstrap.ok() || rank == 1) return bootstrap.status();
    return (*bootstrap)->allgather({}, kLong).status();
  });
  EXPECT_TRUE(problems[1].ok());
  for (const std::size_t rank : {0, 2}) {
    EXPECT_EQ(problems[rank].code(), Code::peer_failed);
    EXPECT_NE(problems[rank].message().find("rank 1 left the job"), std::string::npos)
        << "rank " << rank << ": " << problems[rank].message();
  }
}

TEST(BootstrapStore, RankClaimedByTwoProcesses_endsTheJob_andTheErrorNamesBothAddresses) {
  const std::uint16_t port = free_port();
  const auto problems = on_ranks(3, [&](std::uint32_t i) {
    const std::uint32_t ranks[] = {0, 1, 1};
    return connect_store(store_options(port, ranks[i], 3)).status().message();
  });
  const std::regex twice(
      "rank 1 joined twice at 127.0.0.1:" + std::to_string(port) +
      ", from 127.0.0.1:([0-9]+) and from 127.0.0.1:([0-9]+): give every process "
      "a rank of its own, or .*");
  for (const std::string& problem : problems) {
    std::smatch addresses;
    ASSERT_TRUE(std::regex_match(problem, addresses, twice)) << problem;
    EXPECT_NE(addresses[1], addresses[2]);
  }
}

TEST(BootstrapStore, RankWithAnotherJobSizeOrAnotherJobsToken_isRefused_andTheJobGoesOn) {
  const std::uint16_t port = free_port();
  const auto problems = on_ranks(3, [&](std::uint32_t rank) {
    if (rank == 0) return connect_store(store_options(port, 0, 3)).status().to_string();
    StoreOptions wrong = store_options(port, rank, rank == 1 ? 4 : 3);
    if (rank == 2) wrong.token = make_job_token("another job").value();
    const std::string refusal = connect_store(std::move(wrong)).status().message();
    const Status joined = connect_store(store_options(port, rank, 3)).status();
    EXPECT_TRUE(joined.ok()) << joined.to_string();
    return refusal;
  });
  EXPECT_EQ(problems[0], "ok");
  EXPECT_NE(problems[1].find("rank 1 expects 4 ranks"), std::string::npos) << problems[1];
  EXPECT_NE(problems[2].find("belongs to another job"), std::string::npos) << problems[2];
}

TEST(BootstrapStore, JobsFollowEachOtherAtTheSamePort) {
  const std::uint16_t port = free_port();
  const auto problems = on_ranks(4, [&](std::uint32_t rank) -> std::string {
    for (int job = 0; job < 5; ++job) {
      auto bootstrap = connect_store(store_options(port, rank, 4));
      if (!bootstrap.ok()) return bootstrap.status().to_string();
      const std::string problem = exchange_problem(**bootstrap, rank, 4);
      if (!problem.empty()) return problem;
    }
    return "";
  });
  EXPECT_EQ(no_problems(4), problems);
}

TEST(BootstrapStore, TooLargeContributionIsRefused) {
  const std::uint16_t port = free_port();
  const auto problems = on_ranks(2, [&](std::uint32_t rank) {
    auto bootstrap = connect_store(store_options(port, rank, 2));
    if (!bootstrap.ok()) return bootstrap.status();
    return (*bootstrap)->allgather(Bytes(kMaxContributionBytes + 1), kShort).status();
  });
  for (const Status& status : problems) EXPECT_EQ(status.code(), Code::invalid_argument);
}

TEST(BootstrapStore, LargeContributionsAreExchanged) {
  const std::uint16_t port = free_port();
  const auto sizes = on_ranks(3, [&](std::uint32_t rank) -> std::size_t {
    auto bootstrap = connect_store(store_options(port, rank, 3));
    if (!bootstrap.ok()) return 0;
    const Bytes mine(std::size_t{4} << 20, std::byte(rank + 1));
    const auto all = (*bootstrap)->allgather(mine, kLong);
    return all.ok() && (*all)[rank] == mine && (*all)[2][0] == std::byte{3} ? (*all)[0].size() : 0;
  });
  EXPECT_EQ(sizes, std::vector<std::size_t>(3, std::size_t{4} << 20));
}

TEST(BootstrapStore, ImpossibleRanksAndSizesAreRefused) {
  EXPECT_EQ(connect_store(store_options(1, 2, 2)).status().code(), Code::invalid_argument);
  EXPECT_EQ(connect_store(store_options(1, 0, 0)).status().code(), Code::invalid_argument);
  EXPECT_EQ(connect_store(store_options(1, 0, kMaxBootstrapRanks + 1)).status().code(),
            Code::invalid_argument);
}

TEST(BootstrapUniqueId, IdIsPrintableAndParsesFromItsText) {
  const auto id = make_unique_id("127.0.0.1");
  ASSERT_TRUE(id.ok());
  EXPECT_EQ(std::string(id->data()).size(), id->size() - 1);
  const auto parsed = parse_unique_id(id->data());
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(*parsed, *id);
  discard_unique_id(*id);
}

TEST(BootstrapUniqueId, DamagedIdIsRefused) {
  UniqueId id = *make_unique_id("127.0.0.1");
  discard_unique_id(id);
  for (const std::size_t position : {0u, 7u + 32u, 127u}) {
    UniqueId broken = id;
    broken[position] = '\1';
    EXPECT_EQ(join_unique_id(broken, Rank{1}, 2, kShort).status().code(), Code::invalid_argument);
  }
  EXPECT_FALSE(parse_unique_id("").ok());
  EXPECT_FALSE(parse_unique_id("tutti1/short/1/host/").ok());
  EXPECT_FALSE(parse_unique_id(std::string(id.data(), 30)).ok());
  EXPECT_FALSE(make_unique_id(std::string(100, 'h')).ok());
}

TEST(BootstrapUniqueId, UniqueId_notMadeByTheProcessOfRank0_isRefused) {
  const UniqueId id = *make_unique_id("127.0.0.1");
  discard_unique_id(id);
  const auto made = join_unique_id(id, Rank{0}, 2, kShort);
  EXPECT_EQ(made.status().code(), Code::invalid_argument);
  EXPECT_NE(made.status().message().find("another process made"), std::string::npos);
}

TEST(BootstrapFile, TimeoutNamesTheRanksThatDidNotJoin) {
  const Directory directory;
  const auto made = meet_in_directory({directory.path(), "r", Rank{1}, 4, kShort});
  EXPECT_EQ(made.status().code(), Code::timeout);
  EXPECT_EQ(made.status().message(),
            "ranks 0, 2, 3 did not join the bootstrap in folder " + directory.path() +
                " (run r) within 300 ms: check that all ranks run, or give them a longer timeout");
  EXPECT_EQ(directory.count(), 0u);
}

TEST(BootstrapFile, LeftoverOrUnknownFiles_inTheDirectory_areRefused) {
  const Directory directory;
  std::filesystem::create_directories(directory.path());
  std::ofstream(directory.path() + "/tutti-r.0.0") << "something else";
  std::filesystem::permissions(directory.path() + "/tutti-r.0.0", std::filesystem::perms(0600));
  const auto own = meet_in_directory({directory.path(), "r", Rank{0}, 2, kShort});
  EXPECT_EQ(own.status().code(), Code::invalid_argument);
  EXPECT_NE(own.status().message().find("TUTTI_RUN_ID"), std::string::npos);
  const auto other = meet_in_directory({directory.path(), "r", Rank{1}, 2, kShort});
  EXPECT_EQ(other.status().code(), Code::invalid_argument);
  EXPECT_NE(other.status().message().find("is not a file of this job"), std::string::npos);
  EXPECT_TRUE(std::filesystem::exists(directory.path() + "/tutti-r.0.0"));
}

TEST(BootstrapFile, FileThatAnotherUserMayHaveMade_isRefused_andTheErrorNamesTheRemedy) {
  const Directory directory;
  std::filesystem::create_directories(directory.path());
  const std::string part = directory.path() + "/tutti-r.0.0";
  const auto refusal = [&] {
    return meet_in_directory({directory.path(), "r", Rank{1}, 2, kShort}).status().message();
  };
  std::ofstream(part) << "text";
  std::filesystem::permissions(part, std::filesystem::perms(0644));
  EXPECT_NE(refusal().find("has mode 0644"), std::string::npos) << refusal();
  std::filesystem::rename(part, directory.path() + "/target");
  std::filesystem::create_symlink(directory.path() + "/target", part);
  EXPECT_NE(refusal().find("is a symbolic link"), std::string::npos) << refusal();
  EXPECT_NE(refusal().find("set TUTTI_RUN_ID to a new value"), std::string::npos) << refusal();
}

TEST(BootstrapFile, DraftFileThatIsASymbolicLink_isRefused_andItsTargetIsUnchanged) {
  const Directory directory;
  std::filesystem::create_directories(directory.path());
  const std::string target = directory.path() + "/target";
  std::ofstream(target) << "precious";
  std::filesystem::create_symlink(target, directory.path() + "/tutti-r.0.0.draft");
  const Status status = meet_in_directory({directory.path(), "r", Rank{0}, 2, kShort}).status();
  EXPECT_NE(status.message().find("tutti-r.0.0.draft exists already"), std::string::npos)
      << status.message();
  EXPECT_NE(status.message().find("TUTTI_RUN_ID"), std::string::npos);
  std::string text;
  std::getline(std::ifstream(target), text);
  EXPECT_EQ(text, "precious");
}

TEST(BootstrapFile, DifferentJobSizesOrABadRunId_areRefused) {
  const Directory directory;
  std::latch refused(1);
  const auto problems = on_ranks(3, [&](std::uint32_t rank) {
    if (rank == 2) refused.wait();  // rank 1 compares the sizes only once rank 2 has joined
    const std::uint32_t size = rank == 0 ? 2 : 3;
    Status end = meet_in_directory({directory.path(), "r", rank_of(rank), size, kLong}).status();
    if (rank == 0) refused.count_down();
    return end;
  });
  for (const Status& one : problems) {
    EXPECT_NE(one.message().find("give all ranks the same number"), std::string::npos)
        << one.message();
  }
  for (const char* run_id : {"../r", ""}) {
    const Status end = meet_in_directory({directory.path(), run_id, Rank{0}, 2, kShort}).status();
    EXPECT_EQ(end.code(), Code::invalid_argument) << end.to_string();
    EXPECT_NE(end.message().find("run id"), std::string::npos) << end.to_string();
  }
}

TEST(BootstrapLocal, TimeoutNamesTheRanksThatDidNotJoin) {
  auto bootstraps = make_local_bootstraps(4);
  const auto all = bootstraps[2]->allgather({}, kShort);
  EXPECT_EQ(all.status().code(), Code::timeout);
  EXPECT_EQ(all.status().message(),
            "ranks 0, 1, 3 did not join exchange 0 of the bootstrap within 300 ms: check that all "
            "ranks run, or give them a longer timeout");
  EXPECT_EQ(bootstraps[0]->allgather({}, kLong).status().message(), all.status().message());
}

TEST(BootstrapLocal, ErrorNamesTheRankThatLeft) {
  auto bootstraps = make_local_bootstraps(2);
  bootstraps[1].reset();
  const auto all = bootstraps[0]->allgather({}, kLong);
  EXPECT_EQ(all.status().code(), Code::peer_failed);
  EXPECT_EQ(all.status().message(), "rank 1 left the job before exchange 0 of the bootstrap");
}

TEST(BootstrapCallback, CallbackWithWrongLengthsOrAnException_isAnError) {
  const auto wild = [](std::span<const std::byte>, std::span<std::byte> all, Nanoseconds) {
    std::fill(all.begin(), all.end(), std::byte{0xff});
    return Status();
  };
  auto bootstrap = make_callback_bootstrap(Rank{0}, 2, wild);
  ASSERT_TRUE(bootstrap.ok());
  EXPECT_EQ((*bootstrap)->allgather({}, kShort).status().code(), Code::invalid_argument);

  const auto throwing = [](std::span<const std::byte>, std::span<std::byte>,
                           Nanoseconds) -> Status { throw std::runtime_error("no network"); };
  bootstrap = make_callback_bootstrap(Rank{0}, 2, throwing);
  ASSERT_TRUE(bootstrap.ok());
  EXPECT_EQ((*bootstrap)->allgather({}, kShort).status().message(),
            "the allgather callback of rank 0 threw an exception: no network");
  EXPECT_FALSE(make_callback_bootstrap(Rank{0}, 2, nullptr).ok());
}

TEST(BootstrapCallback, ExchangeAfterAFailedOne_failsWithTheSameError_andCallsNoCallback) {
  int calls = 0;
  const auto late = [&](std::span<const std::byte>, std::span<std::byte>, Nanoseconds) {
    return ++calls == 1 ? Status(Code::timeout, "rank 1 is late") : Status();
  };
  auto bootstrap = make_callback_bootstrap(Rank{0}, 2, late);
  ASSERT_TRUE(bootstrap.ok());
  EXPECT_EQ((*bootstrap)->allgather({}, kShort).status().code(), Code::timeout);
  EXPECT_EQ((*bootstrap)->allgather({}, kShort).status().message(), "rank 1 is late");
  EXPECT_EQ(calls, 1);
}

TEST(BootstrapCallback, ExchangeAfterALackOfMemory_fails_andCallsNoCallback) {
  int calls = 0;
  const auto exhausted = [&](std::span<const std::byte>, std::span<std::byte>, Nanoseconds) {
    if (++calls == 1) throw std::bad_alloc();
    return Status();
  };
  auto bootstrap = make_callback_bootstrap(Rank{0}, 2, exhausted);
  ASSERT_TRUE(bootstrap.ok());
  EXPECT_THROW((void)(*bootstrap)->allgather({}, kShort), std::bad_alloc);
  EXPECT_EQ((*bootstrap)->allgather({}, kShort).status().code(), Code::resource_exhausted);
  EXPECT_EQ(calls, 1);
}

TEST(BootstrapText, RanksAndDurationsArePrinted) {
  const auto ranks = [](std::vector<std::uint32_t> list) { return describe_ranks(list); };
  EXPECT_EQ(ranks({3}), "rank 3");
  EXPECT_EQ(ranks({3, 4}), "ranks 3, 4");
  EXPECT_EQ(ranks({3, 5, 6, 7, 9}), "ranks 3, 5-7, 9");
  std::vector<std::uint32_t> odd;
  for (std::uint32_t rank = 1; rank < 100; rank += 2) odd.push_back(rank);
  EXPECT_TRUE(describe_ranks(odd).ends_with("31 and 34 more")) << describe_ranks(odd);
  EXPECT_EQ(describe_duration(std::chrono::milliseconds(250)), "250 ms");
  EXPECT_EQ(describe_duration(std::chrono::milliseconds(1500)), "1.5 s");
  EXPECT_EQ(describe_duration(std::chrono::seconds(30)), "30 s");
}

TEST(BootstrapText, TextThatIsNoWholeNumberInRange_isRefused) {
  EXPECT_EQ(parse_number("65535", 65535), 65535u);
  for (const char* text : {"", " 1", "1 ", "-1", "+1", "1x", "65536", "99999999999999999999"}) {
    EXPECT_EQ(parse_number(text, 65535), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace tutti::runtime::test
