// Tests the look-up of link addresses in this host's kernel, in the namespaces of a lab.
#include "device/ip/link_address.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <thread>

#include "device/ip/interface.hpp"
#include "lab/lab.hpp"
#include "launch/process.hpp"
#include "requirements.hpp"

namespace tutti::device::ip {
namespace {

constexpr std::uint16_t kPort = 9000;
/// Time limit of a test on a broken lab; a working lab never reaches it.
constexpr std::chrono::seconds kPatience{10};

SocketAddress address_of(const std::string& text) {
  in_addr four{};
  if (inet_pton(AF_INET, text.c_str(), &four) == 1) return SocketAddress::v4(four, kPort);
  in6_addr six{};
  EXPECT_EQ(inet_pton(AF_INET6, text.c_str(), &six), 1) << text;
  return SocketAddress::v6(six, kPort, 0);
}

/// A lab of two hosts. Each check runs in the namespace of host 0.
class LinkAddress : public testing::Test {
 protected:
  void SetUp() override {
    if (const lab::LabSupport support = lab::lab_support(); !support.temporary)
      return test::skip_without("lab", support.temporary.message());
    lab::LabOptions options;
    options.hosts = 2;
    options.ipv6 = true;
    Result<lab::Lab> made = lab::Lab::create(options);
    ASSERT_TRUE(made) << made.status().to_string();
    lab_.emplace(std::move(*made));
  }

  bool on_host_0(const std::function<bool()>& check) {
    Result<pid_t> child = lab_->fork_on(0, [check] { return check() ? 0 : 1; });
    EXPECT_TRUE(child) << child.status().to_string();
    if (!child) return false;
    Result<int> exit = launch::wait_for(*child);
    EXPECT_TRUE(exit) << exit.status().to_string();
    EXPECT_LE(exit.ok() ? *exit : 0, 1) << "the check has crashed";
    return exit.ok() && *exit == 0;
  }

  bool missing(const std::string& to) {
    return on_host_0([peer = address_of(to)] {
      const auto own = choose_interface("eth0", false, peer.family());
      return own.ok() && link_address_missing(*own, peer);
    });
  }

  /// The kernel's record of the link address of a host, as `ip neighbour` prints it.
  std::string record_of(const std::string& to) {
    const auto shown = lab_->tool_on(0, {"ip", "neighbour", "show", to});
    EXPECT_TRUE(shown) << shown.status().to_string();
    return shown.ok() ? shown->output : "";
  }

  /// Sends a datagram; false if the kernel refuses it.
  bool sends(const std::string& to) {
    return on_host_0([peer = address_of(to)] {
      auto socket = open_udp(peer.family());
      return socket.ok() && ::sendto(socket->get(), "?", 1, 0, peer.get(), peer.length()) == 1;
    });
  }

  std::optional<lab::Lab> lab_;
};

TEST_F(LinkAddress, AddressOfAHostToWhichNothingWasSent_isNotMissing) {
  EXPECT_EQ(record_of(lab_->address(1)), "");
  EXPECT_FALSE(missing(lab_->address(1)));
}

TEST_F(LinkAddress, AddressOfAHostThatAnswers_isNotMissing) {
  ASSERT_TRUE(sends(lab_->address(1)));
  const auto hang = std::chrono::steady_clock::now() + kPatience;
  while (missing(lab_->address(1)) && std::chrono::steady_clock::now() < hang) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_FALSE(missing(lab_->address(1)));
  EXPECT_NE(record_of(lab_->address(1)).find("lladdr"), std::string::npos)
      << "the kernel did not ask for the link address";
}

TEST_F(LinkAddress, AddressOfAHostThatDoesNotAnswer_isMissing) {
  for (const std::string absent : {"10.77.0.99", "fd77::99"}) {
    ASSERT_TRUE(sends(absent)) << absent;
    EXPECT_TRUE(missing(absent)) << absent;
  }
}

TEST_F(LinkAddress, AddressOfAHostBehindASilentGateway_isMissing) {
  ASSERT_TRUE(lab_->tool_on(0, {"ip", "route", "add", "10.99.0.0/16", "via", "10.77.0.99"}));
  ASSERT_TRUE(sends("10.99.0.5"));
  EXPECT_TRUE(missing("10.99.0.5"));
}

}  // namespace
}  // namespace tutti::device::ip
