// Tests how far multicast may go: the scope of the groups, the hops of the sockets, and the option
// that sets both.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdlib>
#include <thread>
#include <vector>

#include "device/ip/interface.hpp"
#include "device/ip/multicast/group.hpp"
#include "device/ip/multicast/multicast_queue_pair.hpp"
#include "runtime/bootstrap/local_bootstrap.hpp"
#include "runtime/communicator/create.hpp"
#include "runtime/communicator/device_choice.hpp"
#include "tutti/communicator.hpp"

namespace tutti::device::ip {
namespace {

std::uint8_t scope_of(std::uint32_t hops) {
  const SocketAddress group = group_address(GroupSeed{}, 0, AF_INET6, 1, hops);
  return reinterpret_cast<const sockaddr_in6*>(group.get())->sin6_addr.s6_addr[1] & 0x0f;
}

/// The time to live of the datagrams of a queue pair.
int hops_of_socket(std::uint32_t hops) {
  const auto interface = choose_interface("", true, AF_INET);
  EXPECT_TRUE(interface.ok());
  const GroupSettings settings{.rank = Rank{0},
                               .size = 2,
                               .hops = hops,
                               .send_buffer_bytes = 1 << 16,
                               .receive_buffer_bytes = 1 << 16};
  const auto pair = IpMulticastQueuePair::open(
      settings, *interface, group_address(GroupSeed{}, 0, AF_INET, interface->index, hops), 0);
  EXPECT_TRUE(pair.ok()) << pair.status().to_string();
  int value = 0;
  socklen_t length = sizeof value;
  EXPECT_EQ(::getsockopt((*pair)->send_descriptor(), IPPROTO_IP, IP_MULTICAST_TTL, &value, &length),
            0);
  return value;
}

TEST(MulticastHops, OneHop_usesLinkLocalGroups) {
  EXPECT_EQ(scope_of(1), 2);
  EXPECT_EQ(hops_of_socket(1), 1);
}

TEST(MulticastHops, SeveralHops_useSiteLocalGroups) {
  EXPECT_EQ(scope_of(2), 5);
  EXPECT_EQ(hops_of_socket(7), 7);
}

TEST(MulticastHops, Option_precedesTheVariable_andTheDefaultIsOneHop) {
  CommunicatorOptions options;
  EXPECT_EQ(runtime::multicast_hops(options).value(), 1u);
  ::setenv("TUTTI_MULTICAST_HOPS", "3", 1);
  EXPECT_EQ(runtime::multicast_hops(options).value(), 3u);
  options.multicast_hops = 4;
  EXPECT_EQ(runtime::multicast_hops(options).value(), 4u);
  ::unsetenv("TUTTI_MULTICAST_HOPS");
}

TEST(MulticastHops, HopsOutOfRange_areRefused_andTheErrorNamesTheirSetting) {
  CommunicatorOptions options;
  options.multicast_hops = 256;
  EXPECT_EQ(runtime::multicast_hops(options).status().message(),
            "the option multicast_hops is \"256\": use a number from 1 to 255");
  options.multicast_hops = 0;
  for (const char* text : {"0", "-1", "many", "1 "}) {
    ::setenv("TUTTI_MULTICAST_HOPS", text, 1);
    EXPECT_EQ(runtime::multicast_hops(options).status().message(),
              std::string("TUTTI_MULTICAST_HOPS is \"") + text + "\": use a number from 1 to 255");
  }
  ::unsetenv("TUTTI_MULTICAST_HOPS");
}

TEST(RequiredMulticast, Variable_otherThan0And1_isRefused) {
  CommunicatorOptions options;
  for (const auto& [text, required] : {std::pair("1", true), {"0", false}, {"", false}}) {
    ::setenv("TUTTI_REQUIRE_MULTICAST", text, 1);
    EXPECT_EQ(runtime::requires_multicast(options).value(), required) << text;
  }
  ::setenv("TUTTI_REQUIRE_MULTICAST", "true", 1);
  EXPECT_EQ(runtime::requires_multicast(options).status().message(),
            "TUTTI_REQUIRE_MULTICAST=\"true\" is neither 0 nor 1: use 1 for on, or 0 for off");
  ::unsetenv("TUTTI_REQUIRE_MULTICAST");
}

TEST(MulticastHops, RanksWithDifferentHops_areRefused) {
  auto bootstraps = runtime::make_local_bootstraps(2);
  std::vector<std::thread> threads;
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      CommunicatorOptions options;
      options.multicast_hops = rank + 1;
      const auto refused = runtime::create_communicator(*bootstraps[rank], options);
      ASSERT_FALSE(refused.ok());
      EXPECT_NE(refused.status().message().find("disagree on multicast_hops: 1 at rank 0"),
                std::string::npos)
          << refused.status().to_string();
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace tutti::device::ip
