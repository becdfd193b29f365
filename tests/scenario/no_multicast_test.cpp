// Tests networks that deliver no multicast at all, or none from one rank to another. Collectives
// must then use point-to-point messages and give the right results. If multicast is required,
// creation must fail instead.
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "device/ip/ip_device.hpp"
#include "job.hpp"
#include "runtime/bootstrap/local_bootstrap.hpp"
#include "runtime/communicator/create.hpp"
#include "sim/fault/fault_device.hpp"

namespace tutti::scenario {
namespace {

constexpr std::uint32_t kRanks = 3;
constexpr const char* kNothingPasses = "drop receiver probe\ndrop receiver chunk\n";
/// Rank 2 hears rank 0 but not rank 1.
constexpr const char* kOnePairIsDeaf = "drop receiver probe source=1 ranks=2\n";

/// Options with a short creation timeout, because the membership check waits for half of that time.
CommunicatorOptions impatient() {
  CommunicatorOptions options = small_chunks();
  options.create_timeout = std::chrono::seconds(4);
  return options;
}

Status finished(Result<Request> request) {
  return request ? request->wait_for(std::chrono::seconds(30)) : request.status();
}

void expect_right_allgather(Communicator& communicator, std::size_t bytes) {
  const Bytes own = pattern(bytes, index(communicator.rank()));
  Bytes all(bytes * communicator.size());
  const Status status = finished(communicator.allgather(own, all));
  ASSERT_TRUE(status.ok()) << status.to_string();
  Bytes wanted;
  for (std::uint32_t r = 0; r < communicator.size(); ++r) {
    const Bytes block = pattern(bytes, r);
    wanted.insert(wanted.end(), block.begin(), block.end());
  }
  EXPECT_TRUE(all == wanted) << bytes << " bytes at rank " << index(communicator.rank());
}

void expect_right_allgatherv(Communicator& communicator, std::size_t bytes) {
  const std::vector<std::uint64_t> sizes{bytes, 1, bytes / 2};
  const std::vector<std::uint64_t> offsets{0, bytes, bytes + 1};
  const Bytes own = pattern(sizes[index(communicator.rank())], index(communicator.rank()));
  Bytes all(offsets[2] + sizes[2]);
  const Status status = finished(communicator.allgatherv(own, all, sizes, offsets));
  ASSERT_TRUE(status.ok()) << status.to_string();
  Bytes wanted;
  for (std::uint32_t r = 0; r < communicator.size(); ++r) {
    const Bytes block = pattern(sizes[r], r);
    wanted.insert(wanted.end(), block.begin(), block.end());
  }
  EXPECT_TRUE(all == wanted) << bytes << " bytes at rank " << index(communicator.rank());
}

void expect_right_broadcast(Communicator& communicator, std::size_t bytes) {
  constexpr Rank kRoot{1};
  const Bytes wanted = pattern(bytes, 99);
  Bytes data = communicator.rank() == kRoot ? wanted : Bytes(bytes);
  const Status status = finished(communicator.broadcast(data, kRoot));
  ASSERT_TRUE(status.ok()) << status.to_string();
  EXPECT_TRUE(data == wanted) << bytes << " bytes at rank " << index(communicator.rank());
}

void expect_right_sums(Communicator& communicator, std::size_t count) {
  const std::vector<float> mine(count, static_cast<float>(index(communicator.rank()) + 1));
  std::vector<float> sum(count);
  const Status status = finished(communicator.allreduce(
      std::as_bytes(std::span(mine)), std::as_writable_bytes(std::span(sum)), Reduction()));
  ASSERT_TRUE(status.ok()) << status.to_string();
  EXPECT_EQ(sum, std::vector<float>(count, 6.0f));
}

std::string algorithm_of(Communicator& communicator, Collective collective, std::size_t bytes) {
  const bool broadcast = collective == Collective::broadcast;
  const Bytes own(broadcast ? 0 : bytes);
  Bytes all(broadcast ? bytes : bytes * kRanks);
  const auto name =
      communicator.algorithm_of({.collective = collective, .send = own, .receive = all});
  return name ? *name : name.status().to_string();
}

/// Creates a communicator and returns the status of the creation at each rank.
std::vector<Status> created(const std::string& faults, const CommunicatorOptions& given) {
  const auto plan = device::fault::FaultPlan::parse(faults);
  EXPECT_TRUE(plan.ok());
  const auto network = std::make_shared<device::fault::FaultDevice>(*plan);
  device::ip::IpOptions ip;
  ip.local_only = true;
  ip.tap = network->frame_tap();
  network->decorate(std::make_shared<device::ip::IpDevice>(ip));
  CommunicatorOptions options = given;
  options.device = network;
  auto bootstraps = runtime::make_local_bootstraps(kRanks);
  std::vector<Status> ends(kRanks);
  std::vector<std::thread> threads;
  for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      ends[rank] = runtime::create_communicator(*bootstraps[rank], options).status();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return ends;
}

TEST(NoMulticast, Collectives_ifTheNetworkDropsAllMulticast_usePointToPointMessages) {
  const JobSpec spec{.size = kRanks, .faults = kNothingPasses, .options = impatient()};
  const Outcome outcome = run_job(spec, [](Member& member) {
    Communicator& communicator = member.communicator();
    for (const std::size_t bytes : {8u, 9'000u, 300'000u}) {
      expect_right_allgather(communicator, bytes);
      expect_right_allgatherv(communicator, bytes);
      expect_right_broadcast(communicator, bytes);
      expect_right_sums(communicator, bytes);
      EXPECT_TRUE(finished(communicator.barrier()).ok());
    }
    EXPECT_EQ(algorithm_of(communicator, Collective::broadcast, 8), "binomial");
    EXPECT_EQ(algorithm_of(communicator, Collective::broadcast, 1 << 20), "scatter_allgather");
    EXPECT_EQ(algorithm_of(communicator, Collective::allgather, 8), "bruck");
    EXPECT_EQ(algorithm_of(communicator, Collective::allgather, 1 << 20), "ring");
    EXPECT_NE(communicator.describe().find("no multicast: rank 0"), std::string::npos)
        << communicator.describe();
  });
  EXPECT_EQ(outcome.of("chunks_sent"), 0u);
  EXPECT_EQ(outcome.of("slot_exchanges"), 0u);
  EXPECT_GT(outcome.of("messages_eager"), 0u);
  EXPECT_GT(outcome.of("messages_rendezvous"), 0u);
}

TEST(NoMulticast, RankThatHearsNoMulticastFromOneRank_movesAllRanksToPointToPoint) {
  const JobSpec spec{.size = kRanks, .faults = kOnePairIsDeaf, .options = impatient()};
  const Outcome outcome = run_job(spec, [](Member& member) {
    expect_right_allgather(member.communicator(), 100'000);
    expect_right_broadcast(member.communicator(), 100'000);
    const std::string text = member.communicator().describe();
    EXPECT_NE(text.find("no multicast: rank 2"), std::string::npos) << text;
    EXPECT_NE(text.find("hears no multicast from rank 1"), std::string::npos) << text;
  });
  EXPECT_EQ(outcome.of("chunks_sent"), 0u);
}

TEST(NoMulticast, DuplicateOfACommunicatorWithoutMulticast_doesNotTestMulticastAgain) {
  const JobSpec spec{.size = kRanks, .faults = kNothingPasses, .options = impatient()};
  run_job(spec, [&spec](Member& member) {
    // The duplicate's device delivers multicast, so a second membership check would succeed.
    CommunicatorOptions options = spec.options;
    options.device_name = "ip";
    auto duplicate = member.communicator().duplicate(options);
    ASSERT_TRUE(duplicate.ok()) << duplicate.status().to_string();
    expect_right_allgather(*duplicate, 5'000);
    EXPECT_EQ(algorithm_of(*duplicate, Collective::allgather, 1 << 20), "ring");
    EXPECT_NE(duplicate->describe().find("is \"none\""), std::string::npos);
  });
}

TEST(NoMulticast, RequestForAlgorithmMulticast_isRefused_andTheUnheardRankIsNamed) {
  const JobSpec spec{.size = kRanks, .faults = kOnePairIsDeaf, .options = impatient()};
  run_job(spec, [](Member& member) {
    Bytes data(100);
    auto request = member.communicator().broadcast(data, Rank{0}, {Algorithm::multicast, true});
    ASSERT_FALSE(request.ok());
    EXPECT_EQ(request.status().code(), Code::unsupported);
    EXPECT_NE(request.status().message().find("hears no multicast from rank 1"), std::string::npos)
        << request.status().message();
  });
}

TEST(NoMulticast, RequiredMulticast_ifOnePathDropsIt_isAnErrorNamingBothEnds) {
  CommunicatorOptions options = impatient();
  options.require_multicast = true;
  for (const Status& end : created(kOnePairIsDeaf, options)) {
    EXPECT_EQ(end.code(), Code::unsupported) << end.to_string();
    EXPECT_NE(end.message().find("rank 2"), std::string::npos) << end.message();
    EXPECT_NE(end.message().find("hears no multicast from rank 1"), std::string::npos);
    EXPECT_NE(end.message().find("IGMP querier"), std::string::npos);
  }
}

TEST(NoMulticast, MulticastOptionNone_usesPointToPointMessages_andSendsNoProbes) {
  CommunicatorOptions options = impatient();
  options.multicast = "none";
  // The fault device drops and counts every probe, so a count of 0 shows that no rank sent one.
  const JobSpec spec{.size = kRanks, .faults = "drop receiver probe", .options = options};
  const Outcome outcome = run_job(spec, [](Member& member) {
    expect_right_allgather(member.communicator(), 100'000);
    expect_right_broadcast(member.communicator(), 8);
  });
  EXPECT_EQ(outcome.of("chunks_sent"), 0u);
  EXPECT_EQ(outcome.injected.probes_dropped, 0u);
}

TEST(NoMulticast, MulticastOptionNone_withRequiredMulticast_isRefused) {
  CommunicatorOptions options = impatient();
  options.multicast = "none";
  options.require_multicast = true;
  for (const Status& end : created("", options)) {
    EXPECT_EQ(end.code(), Code::unsupported) << end.to_string();
    EXPECT_NE(end.message().find("is \"none\""), std::string::npos) << end.message();
  }
}

}  // namespace
}  // namespace tutti::scenario
