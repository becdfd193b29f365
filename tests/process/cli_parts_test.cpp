// Tests the code that computes the reports of `tutti`: findings, plans, choices, sizes and checks.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <map>
#include <mutex>
#include <thread>

#include "base/error.hpp"
#include "bench/exercise.hpp"
#include "bench/interface_bytes.hpp"
#include "bench/measurement.hpp"
#include "bench/peers/measure.hpp"
#include "device/ip/interface.hpp"
#include "device_probe.hpp"
#include "explain/choice.hpp"
#include "explain/plan.hpp"
#include "info/findings.hpp"
#include "runtime/bootstrap/local_bootstrap.hpp"
#include "runtime/communicator/create.hpp"
#include "size_option.hpp"
#include "size_text.hpp"

namespace tutti::app::test {
namespace {

TEST(Size, TextIsParsedToBytes) {
  EXPECT_EQ(*parse_size("0"), 0u);
  EXPECT_EQ(*parse_size("65536"), 65536u);
  EXPECT_EQ(*parse_size("64k"), 65536u);
  EXPECT_EQ(*parse_size("4MB"), 4u << 20);
  EXPECT_EQ(*parse_size("1G"), 1u << 30);
  for (const char* text : {"", "K", "-1", "4Q", "1.5K", "4 K", "4KK", "99999999999999999999",
                           "18446744073709551615K"}) {
    EXPECT_EQ(parse_size(text).status().code(), Code::invalid_argument) << text;
  }
}

TEST(SizeRange, SizeAfterZero_isOneElement) {
  SizeRange range;
  range.min_bytes = 0;
  range.max_bytes = 16;
  range.step_factor = 2;
  EXPECT_EQ(range.sizes(4), (std::vector<std::uint64_t>{0, 4, 8, 16}));
}

TEST(Size, PrintedSize_parsesToTheSameNumberOfBytes) {
  for (const std::uint64_t bytes : {0ull, 1ull, 1000ull, 1024ull, 65536ull, 3ull << 30}) {
    EXPECT_EQ(*parse_size(size_text(bytes)), bytes);
  }
  EXPECT_EQ(size_text(65536), "64K");
}

TEST(Pattern, TestPattern_differsByRankOffsetAndRepetition) {
  std::vector<std::byte> data(1003);
  bench::fill_pattern(data.data(), data.size(), 3, 7);
  EXPECT_EQ(bench::count_wrong(data.data(), data.size(), 3, 7), 0);
  // A wrong pattern agrees by chance in about one byte of 256. Nearly all of the 1003 bytes must
  // therefore count as wrong.
  EXPECT_GT(bench::count_wrong(data.data(), data.size(), 2, 7), 900);
  EXPECT_GT(bench::count_wrong(data.data(), data.size(), 3, 8), 900);
  EXPECT_GT(bench::count_wrong(data.data() + 8, data.size() - 8, 3, 7), 900);
  data[500] ^= std::byte{1};
  data[1002] ^= std::byte{1};
  EXPECT_EQ(bench::count_wrong(data.data(), data.size(), 3, 7), 2);
}

TEST(Percentile, EachPercentile_isAMeasuredTime_notAnInterpolatedOne) {
  Measured measured;
  for (int i = 1; i <= 10; ++i) measured.times_ns.push_back(i * 100);
  EXPECT_EQ(measured.percentile_ns(0), 100);
  EXPECT_EQ(measured.percentile_ns(50), 500);
  EXPECT_EQ(measured.percentile_ns(90), 900);
  EXPECT_EQ(measured.percentile_ns(99), 1000);
  EXPECT_EQ(measured.percentile_ns(100), 1000);
  EXPECT_EQ(measured.mean_ns(), 550);
}

TEST(CounterIncrease, CounterThatFell_hasNoIncrease) {
  const Counters before{{"device_connections_open", 5}, {"device_connections_made", 5}};
  const Counters after{{"device_connections_open", 2}, {"device_connections_made", 9}};
  EXPECT_EQ(increases(before, after), (std::vector<std::uint64_t>{0, 4}));
}

TEST(InterfaceBytes, LoopbackCounters_areRead_andAnUnknownInterfaceIsNamedInTheError) {
  EXPECT_TRUE(interface_bytes("lo").ok());
  const auto absent = interface_bytes("nosuch0");
  EXPECT_NE(absent.status().message().find("nosuch0"), std::string::npos);
}

HostFacts healthy() {
  HostFacts facts;
  facts.chosen.emplace();
  facts.chosen->name = "eth0";
  facts.multicast_route = "eth0";
  facts.features = {true, true, true};
  facts.limits.wanted_receive_buffer_bytes = 16 << 20;
  facts.limits.granted_receive_buffer_bytes = 32 << 20;
  facts.limits.udp_mem_pages = {1 << 20, 1 << 20, 1 << 20};
  facts.limits.page_bytes = 4096;
  facts.limits.open_files_soft = facts.limits.open_files_hard = 4096;
  facts.limits.igmp_max_memberships = 20;
  facts.input_policy = InputPolicy::accept;
  return facts;
}

/// Returns the finding about a host with these facts. The test fails unless there is exactly one.
Finding only_finding(const HostFacts& facts) {
  const auto findings = find_faults(facts);
  EXPECT_EQ(findings.size(), 1u);
  return findings.empty() ? Finding{} : findings.front();
}

TEST(Findings, HealthyHost_hasNoFindings) { EXPECT_TRUE(find_faults(healthy()).empty()); }

TEST(Findings, SmallReceiveBufferIsReportedWithItsFix) {
  HostFacts facts = healthy();
  facts.limits.rmem_max_bytes = 212992;
  facts.limits.granted_receive_buffer_bytes = 425984;
  const Finding finding = only_finding(facts);
  EXPECT_EQ(finding.severity, Severity::slow);
  EXPECT_EQ(finding.command, "sysctl -w net.core.rmem_max=16777216");
  EXPECT_NE(finding.text.find("212992"), std::string::npos);
}

TEST(Findings, TooLittleUdpMemory_isReportedWithItsFix) {
  HostFacts facts = healthy();
  facts.limits.udp_mem_pages = {100, 200, 300};
  EXPECT_EQ(only_finding(facts).command, "sysctl -w net.ipv4.udp_mem='32768 49152 65536'");
}

TEST(Findings, HostWithoutAMulticastInterface_isReported) {
  HostFacts facts = healthy();
  facts.chosen.reset();
  facts.chosen_error = "no multicast interface";
  const Finding finding = only_finding(facts);
  EXPECT_EQ(finding.severity, Severity::failing);
  EXPECT_NE(finding.text.find("no multicast interface"), std::string::npos);
}

TEST(Findings, MulticastRouteToAnotherInterfaceIsReported) {
  HostFacts facts = healthy();
  facts.multicast_route = "eth1";
  EXPECT_NE(only_finding(facts).command.find("ip route add 239.192.0.0/14 dev eth0"),
            std::string::npos);
  facts.multicast_route.clear();
  EXPECT_EQ(only_finding(facts).command, "ip route add 239.192.0.0/14 dev eth0");
}

TEST(Findings, SnoopingBridgeWithoutQuerierIsReported) {
  HostFacts facts = healthy();
  facts.bridges = {{"br0", true, true}, {"br1", false, false}, {"br2", true, false}};
  EXPECT_EQ(only_finding(facts).command, "ip link set dev br2 type bridge mcast_querier 1");
}

TEST(Findings, StrictReversePathFilter_onSeveralInterfaces_isReported) {
  HostFacts facts = healthy();
  facts.strict_filters = {"eth0"};
  EXPECT_TRUE(find_faults(facts).empty());
  facts.strict_filters = {"eth0", "eth1"};
  EXPECT_NE(only_finding(facts).command.find("net.ipv4.conf.eth0.rp_filter=2"), std::string::npos);
}

TEST(Findings, Firewall_isListedBeforeMissingSupportForLabs) {
  HostFacts facts = healthy();
  facts.lab.temporary = failure(Code::unsupported, "no user namespaces");
  facts.input_policy = InputPolicy::drop;
  const auto findings = find_faults(facts);
  ASSERT_EQ(findings.size(), 2u);
  EXPECT_EQ(findings[0].severity, Severity::failing);
  EXPECT_NE(findings[0].command.find("iptables -I INPUT -p udp"), std::string::npos);
  EXPECT_NE(findings[1].text.find("no user namespaces"), std::string::npos);
  EXPECT_NE(findings[1].command.find("kernel.unprivileged_userns_clone=1"), std::string::npos);
}

PlanInput plan_input(Operation operation, std::uint32_t ranks, std::uint64_t bytes) {
  return {.operation = operation,
          .ranks = ranks,
          .send_bytes = bytes,
          .mtu_bytes = 1500,
          .window_bytes = 1 << 20};
}

TEST(Plan, MulticastSendsEachBlockOnce) {
  const auto plan = plan_multicast(plan_input(Operation::allgather, 8, 14400));
  ASSERT_TRUE(plan.ok());
  const std::uint64_t block = 14400 + 10 * 74;
  EXPECT_EQ(plan->chunk_bytes, 1440u);
  EXPECT_EQ(plan->chunks, 80u);
  EXPECT_EQ(plan->steps, 8u);
  EXPECT_EQ(plan->data.max_sent, block);
  EXPECT_EQ(plan->data.max_received, 7 * block);
  EXPECT_EQ(plan->data.total, 64 * block);
  EXPECT_EQ(plan->messages, 8u + 7u);  // 8 ranks: one handshake message each, and 7 activations
  EXPECT_EQ(plan->credits, 0u);
  EXPECT_EQ(plan->barrier_messages, 24u);
}

TEST(Plan, Barrier_ofSixRanks_takesTwelveMessages) {
  const auto plan = plan_multicast(plan_input(Operation::broadcast, 6, 1));
  EXPECT_EQ(plan->barrier_messages, 4u * 2 + 2 * 2);
}

TEST(Plan, LongBroadcast_needsCredits) {
  const auto plan = plan_multicast(plan_input(Operation::broadcast, 3, 10 << 20));
  EXPECT_GT(plan->credits, 0u);
  EXPECT_EQ(plan->credits % 2, 0u);  // each of the root's two children reports each credit batch
}

TEST(Plan, LongAllgather_needsGrantsToTheNextSenders) {
  // 8 blocks of 100 chunks; the window has room for 80 chunks, which are 4 batches of 20. The
  // credit of each of the last 36 batches permits chunks of one block, so that no grant is passed
  // on.
  PlanInput input = plan_input(Operation::allgather, 8, 144'000);
  input.window_bytes = 80 * 1440;
  EXPECT_EQ(plan_multicast(input)->credits, 36u * 7);
  // A block of 90 chunks ends amid a batch at 4 of the 7 ends of blocks.
  input.send_bytes = 90 * 1440;
  EXPECT_EQ(plan_multicast(input)->credits, 32u * 7 + 4);
  // Two chains share the window: each has 20 batches of 10 chunks for 4 blocks of 50 chunks.
  input.send_bytes = 50 * 1440;
  input.chains = 2;
  EXPECT_EQ(plan_multicast(input)->credits, 2u * 16 * 7);
}

TEST(Plan, MoreChainsThanChunksOfTheWindow_areAsManyAsItsChunks) {
  PlanInput input = plan_input(Operation::allgather, 8, 144'000);
  input.window_bytes = 4 * 1440;
  input.chains = 8;
  const auto plan = plan_multicast(input);
  ASSERT_TRUE(plan.ok()) << plan.status().to_string();
  EXPECT_EQ(plan->steps, 2u);
}

TEST(Plan, Ring_ofEightRanks_sendsEachBlockSevenTimes) {
  const Plan plan = plan_ring(plan_input(Operation::allgather, 8, 1392));
  EXPECT_EQ(plan.chunk_bytes, 1392u);
  EXPECT_EQ(plan.data.max_sent, 7u * (1392 + 74 + 48));
  EXPECT_EQ(plan.data.total, 2 * 8 * plan.data.max_sent);
  const Plan chain = plan_ring(plan_input(Operation::broadcast, 8, 1392));
  EXPECT_EQ(chain.data.max_sent, 1392u + 74 + 48);
  EXPECT_EQ(chain.data.total, 2 * 7 * chain.data.max_sent);
}

TEST(Plan, Chain_forwardsSegments_andRingForwardsWholeBlocks) {
  EXPECT_EQ(plan_ring(plan_input(Operation::allgather, 8, 40'000)).chunks_per_block, 29u);
  EXPECT_EQ(plan_ring(plan_input(Operation::broadcast, 8, 40'000)).chunks_per_block, 2 * 15u);
}

TEST(Plan, SingleRankSendsNothing) {
  EXPECT_EQ(plan_multicast(plan_input(Operation::allgather, 1, 1000))->data.total, 0u);
  EXPECT_EQ(plan_ring(plan_input(Operation::allgather, 1, 1000)).data.total, 0u);
}

TEST(Plan, UcMessagesHaveSeveralDatagrams) {
  PlanInput input = plan_input(Operation::allgather, 8, 144000);
  input.multicast = device::ip::Multicast::uc;
  const auto plan = plan_multicast(input);
  ASSERT_TRUE(plan.ok());
  // One send has room for 45 datagrams of 1408 bytes of payload with their headers. A block of
  // 144000 bytes therefore takes two full sends and a third one of 13 datagrams.
  EXPECT_EQ(plan->chunk_bytes, 63360u);
  EXPECT_EQ(plan->datagram_bytes, 1408u);
  EXPECT_EQ(plan->chunks_per_block, 3u);
  EXPECT_EQ(plan->chunks, 24u);
  EXPECT_EQ(plan->datagrams_per_block, 103u);
  EXPECT_EQ(plan->data.max_sent, 144000u + 103 * (74 + 8));
  EXPECT_EQ(plan->data.total, 64 * plan->data.max_sent);
}

TEST(Plan, SmallReceiveWindow_shortensUcMessages) {
  PlanInput input = plan_input(Operation::broadcast, 8, 100'000);
  input.multicast = device::ip::Multicast::uc;
  input.window_bytes = 100'000;
  // The expected chunk size is the largest multiple of 32 bytes for which eight chunks fit into the
  // window.
  EXPECT_EQ(plan_multicast(input)->chunk_bytes, 12'480u);
  input.window_bytes = 100;
  EXPECT_EQ(plan_multicast(input)->chunk_bytes, 1408u);
  input.window_bytes = 1 << 20;
  input.chunk_bytes = 10'000;
  EXPECT_EQ(plan_multicast(input)->datagrams_per_block, 10u * 8);
  input.segment_bytes = 1000;
  EXPECT_EQ(plan_multicast(input)->datagram_bytes, 992u);
  EXPECT_EQ(plan_multicast(input)->datagrams_per_block, 10u * 11);
}

TEST(Plan, CallWithMoreChunksThanPsns_isRefused) {
  const auto plan = plan_multicast(plan_input(Operation::allgather, 1000, std::uint64_t{1} << 33));
  EXPECT_EQ(plan.status().code(), Code::invalid_argument);
  EXPECT_NE(plan.status().message().find("chunks"), std::string::npos);
}

TEST(Plan, LargestAcceptedSize_hasTotalsOf64Bits_andALargerOneIsRefused) {
  constexpr std::uint32_t kRanks = 1 << 24;
  PlanInput input = plan_input(Operation::broadcast, kRanks, std::uint64_t{1} << 36);
  const auto plan = plan_multicast(input);
  ASSERT_TRUE(plan.ok()) << plan.status().to_string();
  EXPECT_EQ(plan->data.total / kRanks, plan->data.max_sent);
  const Plan chain = plan_ring(input);
  EXPECT_EQ(chain.data.total / 2 / (kRanks - 1), chain.data.max_sent);
  ++input.send_bytes;
  EXPECT_EQ(plan_multicast(input).status().code(), Code::invalid_argument);
  const Status refused = plan_multicast(plan_input(Operation::allgather, kRanks, 4097)).status();
  EXPECT_EQ(refused.code(), Code::invalid_argument);
  EXPECT_NE(refused.message().find("4097 bytes among 16777216 ranks"), std::string::npos);
}

/// The counters of one collective, summed over two ranks.
std::map<std::string, std::uint64_t> counted(const ExerciseOptions& what,
                                             const CommunicatorOptions& options) {
  auto bootstraps = runtime::make_local_bootstraps(2);
  std::map<std::string, std::uint64_t> sums;
  std::mutex mutex;
  std::vector<std::thread> ranks;
  for (std::size_t r = 0; r < 2; ++r) {
    ranks.emplace_back([&, r] {
      auto communicator = runtime::create_communicator(*bootstraps[r], options);
      ASSERT_TRUE(communicator.ok()) << communicator.status().to_string();
      auto exercise = Exercise::create(*communicator, what);
      ASSERT_TRUE(exercise.ok());
      exercise->fill(1);
      const Status status = exercise->run();
      ASSERT_TRUE(status.ok()) << status.to_string();
      EXPECT_EQ(exercise->count_wrong(1), 0u);
      const std::lock_guard lock(mutex);
      for (const auto& [name, value] : communicator->counters()) sums[name] += value;
    });
  }
  for (std::thread& rank : ranks) rank.join();
  return sums;
}

std::uint64_t multicast_bytes(Operation operation, std::uint64_t bytes) {
  return counted({.operation = operation, .send_bytes = bytes}, {})["device_multicast_bytes_sent"];
}

TEST(Plan, UcPlan_matchesTheCountersOfTheDevice) {
  const auto loopback = device::ip::choose_interface("", true, AF_INET);
  ASSERT_TRUE(loopback.ok()) << loopback.status().to_string();
  const auto device = probe_device(loopback->name, false, 1, "uc");
  ASSERT_TRUE(device.ok()) << device.status().to_string();
  CommunicatorOptions options;
  options.interface = loopback->name;
  options.multicast = "uc";
  for (const std::uint32_t segment_bytes : {0u, 700u, 1408u}) {
    for (const std::uint32_t chunk_bytes : {0u, 9000u}) {
      options.segment_bytes = segment_bytes;
      options.chunk_bytes = chunk_bytes;
      const auto plan = plan_multicast({.operation = Operation::broadcast,
                                        .ranks = 2,
                                        .send_bytes = 100'001,
                                        .mtu_bytes = loopback->mtu_bytes,
                                        .multicast = device::ip::Multicast::uc,
                                        .chunk_bytes = chunk_bytes,
                                        .segment_bytes = segment_bytes,
                                        .window_bytes = device->receive_window_bytes});
      ASSERT_TRUE(plan.ok());
      auto sums = counted({.operation = Operation::broadcast,
                           .call = {.algorithm = Algorithm::multicast},
                           .send_bytes = 100'001},
                          options);
      EXPECT_EQ(sums["device_multicast_datagrams_sent"], plan->datagrams_per_block);
      EXPECT_EQ(sums["device_uc_messages_completed"], plan->chunks);
      EXPECT_EQ(sums["device_uc_segments_received"], plan->datagrams_per_block);
    }
  }
}

TEST(Choice, ReportedAlgorithm_isTheOneThatTheCommunicatorUses) {
  for (const Operation operation : {Operation::allgather, Operation::broadcast}) {
    for (const std::uint64_t bytes : {1ull, 300'000ull}) {
      const bool multicast = choose(operation, 2, bytes, {.hosts = 1})->algorithm == "multicast";
      EXPECT_EQ(multicast_bytes(operation, bytes) >= bytes, multicast)
          << to_string(operation) << " of " << bytes;
    }
  }
}

}  // namespace
}  // namespace tutti::app::test
