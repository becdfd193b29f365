// Tests the traffic class of datagrams: the option, and what the sockets send.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <cstdlib>

#include "device/ip/interface.hpp"
#include "device/ip/multicast/group.hpp"
#include "device/ip/multicast/multicast_queue_pair.hpp"
#include "requirements.hpp"
#include "runtime/communicator/device_choice.hpp"
#include "tutti/communicator.hpp"

namespace tutti::device::ip {
namespace {

TEST(TrafficClass, MulticastSocket_hasTheCodePointAndThePriority) {
  const auto interface = choose_interface("", true, AF_INET);
  ASSERT_TRUE(interface.ok());
  const GroupSettings settings{.rank = Rank{0},
                               .size = 2,
                               .traffic = TrafficClasses::equal({.dscp = 46, .priority = 5}),
                               .send_buffer_bytes = 1 << 16,
                               .receive_buffer_bytes = 1 << 16};
  const auto pair = IpMulticastQueuePair::open(
      settings, *interface, group_address(GroupSeed{}, 0, AF_INET, interface->index), 0);
  ASSERT_TRUE(pair.ok()) << pair.status().to_string();
  EXPECT_EQ(get_option((*pair)->send_descriptor(), IPPROTO_IP, IP_TOS), 46 << 2);
  EXPECT_EQ(get_option((*pair)->send_descriptor(), SOL_SOCKET, SO_PRIORITY), 5);
}

/// The traffic class of a datagram that was sent with code point 10 to `address`.
int class_of_datagram(int family, SocketAddress address) {
  auto receiver = open_udp(family);
  auto sender = open_udp(family);
  EXPECT_TRUE(receiver.ok() && sender.ok());
  const bool six = family == AF_INET6;
  Status set = set_option(receiver->get(), six ? IPPROTO_IPV6 : IPPROTO_IP,
                          six ? IPV6_RECVTCLASS : IP_RECVTOS, 1, "RECVTOS");
  EXPECT_TRUE(set.ok()) << set.to_string();
  EXPECT_EQ(::bind(receiver->get(), address.get(), address.length()), 0);
  socklen_t length = address.length();
  EXPECT_EQ(::getsockname(receiver->get(), address.get(), &length), 0);
  EXPECT_TRUE(set_traffic_class(sender->get(), family, {.dscp = 10, .priority = 0}));
  EXPECT_EQ(::sendto(sender->get(), "x", 1, 0, address.get(), address.length()), 1);
  pollfd arrival{receiver->get(), POLLIN, 0};  // the kernel may deliver after `sendto` has returned
  EXPECT_EQ(::poll(&arrival, 1, -1), 1);
  char byte = 0;
  iovec vector{&byte, 1};
  alignas(cmsghdr) char control[64] = {};
  msghdr message{};
  message.msg_iov = &vector;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  EXPECT_EQ(::recvmsg(receiver->get(), &message, 0), 1);
  const cmsghdr* const first = CMSG_FIRSTHDR(&message);
  EXPECT_NE(first, nullptr);
  return first == nullptr ? -1 : static_cast<unsigned char>(*CMSG_DATA(first));
}

TEST(TrafficClass, Ipv4Datagram_arrivesWithTheCodePoint) {
  const auto interface = choose_interface("", true, AF_INET);
  ASSERT_TRUE(interface.ok()) << interface.status().to_string();
  EXPECT_EQ(class_of_datagram(AF_INET, interface->address), 10 << 2);
}

TEST(TrafficClass, Ipv6Datagram_arrivesWithTheCodePoint) {
  const auto interface = choose_interface("", true, AF_INET6);
  if (!interface) return test::skip_without("ipv6", interface.status().to_string());
  EXPECT_EQ(class_of_datagram(AF_INET6, interface->address), 10 << 2);
}

/// Sends data of changing priority from `socket`, whose IP option `field` is the traffic class.
void expect_class_follows_priority(const Descriptor& socket, int family, int level, int field) {
  SocketClass of_socket;
  ASSERT_TRUE(of_socket.open(socket.get(), family, {{{{8, 0}, {0, 0}, {46, 5}}}}));
  for (int round = 0; round < 2; ++round) {
    of_socket.use(Priority::high);
    EXPECT_EQ(get_option(socket.get(), level, field), 46 << 2);
    EXPECT_EQ(get_option(socket.get(), SOL_SOCKET, SO_PRIORITY), 5);
    of_socket.use(Priority::normal);
    EXPECT_EQ(get_option(socket.get(), level, field), 0);
    EXPECT_EQ(get_option(socket.get(), SOL_SOCKET, SO_PRIORITY), 0);
    of_socket.use(Priority::low);
    EXPECT_EQ(get_option(socket.get(), level, field), 8 << 2);
  }
}

TEST(TrafficClass, Ipv4Socket_whenThePriorityOfItsDataChanges_changesItsTrafficClass) {
  const auto socket = open_udp(AF_INET);
  ASSERT_TRUE(socket.ok()) << socket.status().to_string();
  expect_class_follows_priority(*socket, AF_INET, IPPROTO_IP, IP_TOS);
}

TEST(TrafficClass, Ipv6Socket_whenThePriorityOfItsDataChanges_changesItsTrafficClass) {
  const auto socket = open_udp(AF_INET6);
  if (!socket) return test::skip_without("ipv6", socket.status().to_string());
  expect_class_follows_priority(*socket, AF_INET6, IPPROTO_IPV6, IPV6_TCLASS);
}

TEST(TrafficClass, Option_overridesTheEnvironmentVariable) {
  const auto normal = [](const CommunicatorOptions& options) {
    return runtime::traffic_classes(options)->of(Priority::normal);
  };
  CommunicatorOptions options;
  EXPECT_EQ(normal(options), TrafficClass());
  ::setenv("TUTTI_TRAFFIC_CLASS", "34/6", 1);
  EXPECT_EQ(normal(options), (TrafficClass{34, 6}));
  options.traffic_class = "46";
  EXPECT_EQ(normal(options), (TrafficClass{46, 0}));
  ::unsetenv("TUTTI_TRAFFIC_CLASS");
}

TEST(TrafficClass, ListOfThreeClasses_givesTheClassesOfLowNormalAndHighPriority) {
  CommunicatorOptions options;
  options.traffic_class = "8,0,46/5";
  const auto classes = runtime::traffic_classes(options);
  ASSERT_TRUE(classes.ok());
  EXPECT_EQ(classes->of(Priority::low), (TrafficClass{8, 0}));
  EXPECT_EQ(classes->of(Priority::normal), (TrafficClass{0, 0}));
  EXPECT_EQ(classes->of(Priority::high), (TrafficClass{46, 5}));
}

TEST(TrafficClass, MalformedText_isRefused_andTheErrorNamesItsSource) {
  CommunicatorOptions options;
  for (const char* text : {"64", "46/16", "46/", "/5", "high", "46/5/1", " 46", "-1", "0,46",
                           "0,0,", "0,0,64", "0,0,0,0"}) {
    options.traffic_class = text;
    EXPECT_EQ(runtime::traffic_classes(options).status().message(),
              std::string("the option traffic_class is \"") + text +
                  "\": use one traffic class for all calls, such as 46 or 46/5, or three for calls "
                  "of low, normal and high priority, such as 8,0,46 (each is a DSCP from 0 to 63, "
                  "optionally with a slash and a socket priority from 0 to 15)");
  }
}

}  // namespace
}  // namespace tutti::device::ip
