// Tests communicators that hold fewer connections than they have peers: every collective and
// message gives the right result, and the counters show the limit.
#include <gtest/gtest.h>

#include <cstdlib>
#include <vector>

#include "communicator_ranks.hpp"
#include "runtime/communicator/device_choice.hpp"

namespace tutti {
namespace {

using namespace test;

constexpr std::uint32_t kRanks = 10;
constexpr std::uint32_t kMost = 4;

CommunicatorOptions limited(const char* multicast) {
  CommunicatorOptions options = patient();
  options.device_name = "ip";
  options.multicast = multicast;
  options.max_connections = kMost;
  return options;
}

/// The block that rank `from` sends to rank `to`.
Bytes block_of(std::uint32_t from, std::uint32_t to, std::size_t bytes) {
  return pattern(bytes, 1'000 * from + to);
}

void exchange(Communicator& communicator, std::size_t block_bytes) {
  const std::uint32_t me = index(communicator.rank());
  Bytes send, receive(kRanks * block_bytes), wanted;
  for (std::uint32_t r = 0; r < kRanks; ++r) {
    const Bytes to = block_of(me, r, block_bytes), from = block_of(r, me, block_bytes);
    send.insert(send.end(), to.begin(), to.end());
    wanted.insert(wanted.end(), from.begin(), from.end());
  }
  finish(communicator.alltoall(send, receive));
  EXPECT_TRUE(receive == wanted) << "blocks of " << block_bytes << " bytes";
}

void gather_by(Communicator& communicator, const char* algorithm) {
  constexpr std::size_t kBytes = 30'000;
  const Bytes own = pattern(kBytes, index(communicator.rank()));
  Bytes all(kRanks * kBytes);
  finish(communicator.allgather(own, all, {.algorithm = algorithm}));
  for (std::uint32_t r = 0; r < kRanks; ++r) {
    const Bytes expected = pattern(kBytes, r);
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), all.begin() + r * kBytes));
  }
}

/// Sends a message to every other rank and receives one from each, all at the same time.
void converse(Communicator& communicator, std::size_t bytes) {
  const std::uint32_t me = index(communicator.rank());
  std::vector<Bytes> sent(kRanks), got(kRanks, Bytes(bytes));
  std::vector<Request> requests;
  for (std::uint32_t r = 0; r < kRanks; ++r) {
    if (r == me) continue;
    sent[r] = block_of(me, r, bytes);
    requests.push_back(begun(communicator.receive(got[r], rank_of(r), 7)));
    requests.push_back(begun(communicator.send(sent[r], rank_of(r), 7)));
  }
  EXPECT_TRUE(Request::wait_all(requests, kLong).ok());
  for (std::uint32_t r = 0; r < kRanks; ++r) {
    if (r == me) continue;
    EXPECT_TRUE(got[r] == block_of(r, me, bytes)) << "message of rank " << r;
  }
}

class MaxConnections : public testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(MaxConnections, MaxConnections, testing::Values("ud", "none"),
                         [](const auto& one) { return std::string(one.param); });

TEST_P(MaxConnections, CollectivesAndMessages_complete_withinTheLimitOfConnections) {
  on_ranks(kRanks, limited(GetParam()), [](Communicator& communicator) {
    for (const std::size_t bytes : {std::size_t{9}, std::size_t{3'000}, std::size_t{60'000}})
      exchange(communicator, bytes);
    for (const char* algorithm : {"linear", "ring", "bruck"}) gather_by(communicator, algorithm);
    converse(communicator, 100);
    converse(communicator, 50'000);
    const Counters counters = counters_of(communicator);
    EXPECT_LE(counters.at("device_connections_high_water"), kMost);
    EXPECT_GE(counters.at("device_connections_made"), kRanks - 1);
    EXPECT_GT(counters.at("device_connections_closed"), 0u);
  });
}

TEST(MaxConnectionsOption, Connections_withoutALimit_areNeverClosed) {
  CommunicatorOptions options = limited("none");
  options.max_connections = 0;
  on_ranks(kRanks, options, [](Communicator& communicator) {
    exchange(communicator, 3'000);
    EXPECT_EQ(counters_of(communicator).at("device_connections_open"), kRanks - 1);
    EXPECT_EQ(counters_of(communicator).at("device_connections_closed"), 0u);
  });
}

TEST(MaxConnectionsOption, Option_precedesTheVariable_andTheDefaultIsNoLimit) {
  CommunicatorOptions options;
  EXPECT_EQ(runtime::max_connections(options).value(), 0u);
  ::setenv("TUTTI_MAX_CONNECTIONS", "8", 1);
  EXPECT_EQ(runtime::max_connections(options).value(), 8u);
  options.max_connections = 2;
  EXPECT_EQ(runtime::max_connections(options).value(), 2u);
  options.max_connections = 0;
  for (const char* wrong : {"1", "many", "-2"}) {
    ::setenv("TUTTI_MAX_CONNECTIONS", wrong, 1);
    const auto refused = runtime::max_connections(options);
    EXPECT_EQ(refused.status().code(), Code::invalid_argument) << wrong;
    EXPECT_NE(refused.status().message().find("TUTTI_MAX_CONNECTIONS"), std::string::npos);
  }
  ::unsetenv("TUTTI_MAX_CONNECTIONS");
}

}  // namespace
}  // namespace tutti
