// Tests labs on this machine: the network that a lab builds, its losses, and its complete removal.
#include "lab/lab.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "lab/cores.hpp"
#include "lab/runner.hpp"
#include "lab/state.hpp"
#include "launch/place.hpp"
#include "requirements.hpp"

namespace tutti::lab {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr std::uint16_t kPort = 9000;
constexpr const char* kGroup = "239.77.1.1";
constexpr const char* kGroup6 = "ff15::77:1";
constexpr std::size_t kPayloadBytes = 200;
constexpr std::uint32_t kProbe = 0xffff'ffff;
/// Time limit of a test on a broken lab; a working lab never reaches it.
constexpr milliseconds kPatience{10'000};

const LabSupport& support() {
  static const LabSupport result = lab_support();
  return result;
}

sockaddr_in ipv4(const std::string& address) {
  sockaddr_in result{};
  result.sin_family = AF_INET;
  result.sin_port = htons(kPort);
  inet_pton(AF_INET, address.c_str(), &result.sin_addr);
  return result;
}

/// A receiver on a host, bound to kPort at all addresses of the host. The test fails if the socket
/// cannot be made.
device::Descriptor receiver_on(const Lab& lab, int host) {
  Result<device::Descriptor> made = lab.socket_on(host, AF_INET, SOCK_DGRAM);
  EXPECT_TRUE(made) << made.status().to_string();
  if (!made) return device::Descriptor();
  const int bytes = 4 << 20;
  setsockopt(made->get(), SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
  const sockaddr_in any = ipv4("0.0.0.0");
  EXPECT_EQ(bind(made->get(), reinterpret_cast<const sockaddr*>(&any), sizeof any), 0);
  return std::move(*made);
}

void join(const device::Descriptor& receiver, const std::string& own_address) {
  ip_mreqn membership{};
  inet_pton(AF_INET, kGroup, &membership.imr_multiaddr);
  inet_pton(AF_INET, own_address.c_str(), &membership.imr_address);
  ASSERT_EQ(
      setsockopt(receiver.get(), IPPROTO_IP, IP_ADD_MEMBERSHIP, &membership, sizeof membership), 0)
      << std::strerror(errno);
}

/// A sender on a host, connected to kPort at the address `to`.
device::Descriptor sender_on(const Lab& lab, int host, const std::string& to) {
  Result<device::Descriptor> made = lab.socket_on(host, AF_INET, SOCK_DGRAM);
  EXPECT_TRUE(made) << made.status().to_string();
  if (!made) return device::Descriptor();
  const sockaddr_in address = ipv4(to);
  EXPECT_EQ(connect(made->get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  return std::move(*made);
}

using Payload = std::array<unsigned char, kPayloadBytes>;

Payload payload_of(std::uint32_t sequence) {
  Payload payload;
  payload.fill(0x33);
  std::memcpy(payload.data(), &sequence, sizeof sequence);
  return payload;
}

void send_one(const device::Descriptor& sender, std::uint32_t sequence) {
  const Payload payload = payload_of(sequence);
  ASSERT_EQ(send(sender.get(), payload.data(), payload.size(), 0),
            static_cast<ssize_t>(payload.size()))
      << std::strerror(errno);
}

/// The datagrams that one receiver has received, in order, without probes.
struct Seen {
  std::vector<std::uint32_t> order;
  int corrupt = 0;
  bool probed = false;

  std::set<std::uint32_t> unique() const { return {order.begin(), order.end()}; }
  /// The number of datagrams that were overtaken by a datagram sent later.
  int late() const {
    int count = 0;
    std::uint32_t highest = 0;
    for (const std::uint32_t sequence : order) {
      count += sequence < highest;
      highest = std::max(highest, sequence);
    }
    return count;
  }
};

/// Reads one datagram, if one arrives within the time.
bool receive_one(const device::Descriptor& receiver, Seen& seen, milliseconds within) {
  pollfd polled{receiver.get(), POLLIN, 0};
  if (poll(&polled, 1, static_cast<int>(within.count())) != 1) return false;
  Payload payload;
  const ssize_t count = recv(receiver.get(), payload.data(), payload.size(), MSG_DONTWAIT);
  if (count != static_cast<ssize_t>(payload.size())) return false;
  std::uint32_t sequence = 0;
  std::memcpy(&sequence, payload.data(), sizeof sequence);
  if (sequence == kProbe) {
    seen.probed = true;
    return true;
  }
  seen.order.push_back(sequence);
  seen.corrupt += payload != payload_of(sequence);
  return true;
}

void drain(const device::Descriptor& receiver, Seen& seen, milliseconds quiet) {
  while (receive_one(receiver, seen, quiet)) {
  }
}

/// Sends probes until the receiver gets one; false if none arrives in time.
bool reaches(const device::Descriptor& sender, const device::Descriptor& receiver) {
  Seen seen;
  const auto end = steady_clock::now() + kPatience;
  while (!seen.probed && steady_clock::now() < end) {
    send_one(sender, kProbe);
    drain(receiver, seen, milliseconds(10));
  }
  drain(receiver, seen, milliseconds(50));
  return seen.probed;
}

/// Sends numbered datagrams in bursts that fit the receivers' buffers, and collects what each
/// receiver gets.
std::vector<Seen> exchange(const device::Descriptor& sender,
                           const std::vector<const device::Descriptor*>& receivers,
                           std::uint32_t count) {
  std::vector<Seen> seen(receivers.size());
  constexpr std::uint32_t kBatch = 100;
  for (std::uint32_t sequence = 0; sequence < count; ++sequence) {
    send_one(sender, sequence);
    if ((sequence + 1) % kBatch != 0) continue;
    for (std::size_t i = 0; i < receivers.size(); ++i)
      drain(*receivers[i], seen[i], milliseconds(5));
  }
  for (std::size_t i = 0; i < receivers.size(); ++i) {
    drain(*receivers[i], seen[i], milliseconds(300));
  }
  return seen;
}

Lab must_create(const LabOptions& options) {
  Result<Lab> lab = Lab::create(options);
  EXPECT_TRUE(lab) << lab.status().to_string();
  if (!lab)
    // lab_support() found that this machine can build labs, so the creation must not fail. Without
    // a lab no further check is possible, so the program ends.
    std::abort();
  return std::move(*lab);
}

LabOptions small_lab(int hosts) {
  LabOptions options;
  options.hosts = hosts;
  return options;
}

bool namespace_in_use(ino_t inode) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    if (launch::namespace_inode("/proc/" + name + "/ns/net") == inode) return true;
  }
  return false;
}

ino_t host_inode(const Lab& lab, int host) {
  return launch::namespace_inode("/proc/self/fd/" + std::to_string(lab.host_place(host)->network));
}

bool wait_until(const std::function<bool()>& condition) {
  const auto end = steady_clock::now() + kPatience;
  while (!condition()) {
    if (steady_clock::now() > end) return false;
    std::this_thread::sleep_for(milliseconds(5));
  }
  return true;
}

TEST(Lab, MulticastReachesEachMemberOnceAndNoOtherHost) {
  if (!support().temporary) return test::skip_without("lab", support().temporary.message());
  const Lab lab = must_create(small_lab(3));
  const device::Descriptor sender = sender_on(lab, 0, kGroup);
  const device::Descriptor member = receiver_on(lab, 1);
  const device::Descriptor outsider = receiver_on(lab, 2);
  join(member, lab.address(1));
  ASSERT_TRUE(reaches(sender, member));

  const std::vector<PortBytes> before = *lab.port_bytes();
  constexpr std::uint32_t kCount = 1000;
  const std::vector<Seen> seen = exchange(sender, {&member, &outsider}, kCount);
  const std::vector<PortBytes> after = *lab.port_bytes();
  ASSERT_EQ(seen[0].order.size(), kCount);
  EXPECT_EQ(seen[0].unique().size(), kCount);
  EXPECT_EQ(seen[0].late(), 0);
  EXPECT_TRUE(seen[1].order.empty());
  // Host 2 is no member of the group, so its link carries at most a few packets of the multicast
  // querier.
  EXPECT_LT(after[2].since(before[2]).rx_packets, 50u);
}

TEST(Lab, Ipv6MulticastReachesMembersOnly) {
  if (!support().temporary) return test::skip_without("lab", support().temporary.message());
  if (!std::filesystem::exists("/proc/sys/net/ipv6"))
    return test::skip_without("ipv6", "the kernel has no IPv6");
  LabOptions options = small_lab(3);
  options.ipv6 = true;
  const Lab lab = must_create(options);
  Result<device::Descriptor> member = lab.socket_on(1, AF_INET6, SOCK_DGRAM);
  Result<device::Descriptor> sender = lab.socket_on(0, AF_INET6, SOCK_DGRAM);
  ASSERT_TRUE(member && sender);
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_port = htons(kPort);
  ASSERT_EQ(bind(member->get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ipv6_mreq membership{};
  inet_pton(AF_INET6, kGroup6, &membership.ipv6mr_multiaddr);
  Result<launch::ProgramOutput> link = lab.tool_on(1, {"ip", "-j", "link", "show", "eth0"});
  ASSERT_TRUE(link);
  membership.ipv6mr_interface = nlohmann::json::parse(link->output).at(0).at("ifindex");
  ASSERT_EQ(
      setsockopt(member->get(), IPPROTO_IPV6, IPV6_ADD_MEMBERSHIP, &membership, sizeof membership),
      0);
  inet_pton(AF_INET6, kGroup6, &address.sin6_addr);
  ASSERT_EQ(connect(sender->get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0)
      << std::strerror(errno);
  ASSERT_TRUE(reaches(*sender, *member));

  const std::vector<PortBytes> before = *lab.port_bytes();
  const std::vector<Seen> seen = exchange(*sender, {&*member}, 500);
  const std::vector<PortBytes> after = *lab.port_bytes();
  EXPECT_EQ(seen[0].unique().size(), 500u);
  EXPECT_EQ(seen[0].order.size(), 500u);
  EXPECT_LT(after[2].since(before[2]).rx_packets, 50u);
}

TEST(Lab, SwitchPortCounters_countTheBytesOfEachHost) {
  if (!support().temporary) return test::skip_without("lab", support().temporary.message());
  const Lab lab = must_create(small_lab(2));
  const device::Descriptor receiver = receiver_on(lab, 1);
  const device::Descriptor sender = sender_on(lab, 0, lab.address(1));
  ASSERT_TRUE(reaches(sender, receiver));
  const std::vector<PortBytes> before = *lab.port_bytes();
  const std::vector<Seen> seen = exchange(sender, {&receiver}, 100);
  const std::vector<PortBytes> after = *lab.port_bytes();
  ASSERT_EQ(seen[0].order.size(), 100u);
  const std::uint64_t bytes = 100 * (kPayloadBytes + 14 + 20 + 8);
  const PortBytes uplink = after[0].since(before[0]);
  const PortBytes downlink = after[1].since(before[1]);
  EXPECT_EQ(uplink.host, 0);
  EXPECT_GE(uplink.tx_packets, 100u);
  EXPECT_GE(uplink.tx_bytes, bytes);
  EXPECT_LE(uplink.tx_bytes, bytes + 2000);
  EXPECT_GE(downlink.rx_bytes, bytes);
  EXPECT_LE(downlink.rx_bytes, bytes + 2000);
  EXPECT_LE(downlink.tx_bytes, 2000u);
}

TEST(Lab, RateLimit_appliesToBothEndsOfEachLink) {
  if (!support().shaping) return test::skip_without("netadmin", support().shaping.message());
  LabOptions options = small_lab(2);
  options.rate_bits_per_second = 1'000'000'000;
  const Lab lab = must_create(options);
  const auto expect_shaped = [](const Result<launch::ProgramOutput>& shown) {
    ASSERT_TRUE(shown);
    const nlohmann::json queue = nlohmann::json::parse(shown->output).at(0);
    EXPECT_EQ(queue.at("kind"), "tbf");
    // The rate of the link, in bytes per second.
    EXPECT_EQ(queue.at("options").at("rate"), 125'000'000);
    EXPECT_GE(queue.at("options").at("burst"), 128 * 1000);
  };
  for (int host = 0; host < 2; ++host) {
    expect_shaped(lab.tool_on(host, {"tc", "-j", "qdisc", "show", "dev", "eth0", "root"}));
    const std::string port = "p" + std::to_string(host);
    expect_shaped(lab.tool_on_switch({"tc", "-j", "qdisc", "show", "dev", port, "root"}));
  }
}

// The hosts of a large lab have permanent neighbour entries, because the kernel limits the number
// of resolved addresses.
TEST(Lab, HostsOfALargeLab_havePermanentNeighbourEntries) {
  if (!support().temporary) return test::skip_without("lab", support().temporary.message());
  constexpr int kHosts = 40;
  const Lab lab = must_create(small_lab(kHosts));
  const auto shown = lab.tool_on(0, {"ip", "-j", "neigh", "show", "dev", "eth0"});
  const auto last = lab.tool_on(kHosts - 1, {"ip", "-j", "link", "show", "dev", "eth0"});
  ASSERT_TRUE(shown && last);
  std::map<std::string, nlohmann::json> known;
  for (const nlohmann::json& one : nlohmann::json::parse(shown->output)) known[one.at("dst")] = one;
  EXPECT_EQ(known.size(), kHosts - 1u);
  for (const auto& [address, one] : known)
    EXPECT_EQ(one.at("state"), nlohmann::json::array({"PERMANENT"})) << address;
  EXPECT_EQ(known[lab.address(kHosts - 1)].at("lladdr"),
            nlohmann::json::parse(last->output).at(0).at("address"));
}

TEST(Lab, LabWithImpairments_turnsSegmentationOffloadOff) {
  if (!support().offload) return test::skip_without("netadmin", support().offload.message());
  if (!support().loss) return test::skip_without("netadmin", support().loss.message());
  LabOptions options = small_lab(1);
  options.impairments.loss_percent = 1;
  const Lab impaired = must_create(options);
  const Lab clean = must_create(small_lab(1));
  Result<launch::ProgramOutput> off = impaired.tool_on(0, {"ethtool", "-k", "eth0"});
  Result<launch::ProgramOutput> on = clean.tool_on(0, {"ethtool", "-k", "eth0"});
  ASSERT_TRUE(off && on);
  EXPECT_NE(off->output.find("tx-udp-segmentation: off"), std::string::npos) << off->output;
  EXPECT_NE(off->output.find("tcp-segmentation-offload: off"), std::string::npos);
  EXPECT_NE(on->output.find("tx-udp-segmentation: on"), std::string::npos) << on->output;
}

/// Two receivers of one group, and one sender.
class ImpairedLab : public testing::Test {
 protected:
  static constexpr std::uint32_t kCount = 2000;
  // Bounds on how many of kCount datagrams an impairment of ten percent affects: the expected
  // number, plus or minus six standard deviations.
  static constexpr std::size_t kLeast = 120;
  static constexpr std::size_t kMost = 280;

  void SetUp() override {
    if (!support().loss) return test::skip_without("netadmin", support().loss.message());
    if (!support().offload) return test::skip_without("netadmin", support().offload.message());
    LabOptions options = small_lab(3);
    options.segmentation = false;
    lab_.emplace(must_create(options));
    sender_ = sender_on(*lab_, 0, kGroup);
    for (int host : {1, 2}) {
      receivers_.push_back(receiver_on(*lab_, host));
      join(receivers_.back(), lab_->address(host));
      ASSERT_TRUE(reaches(sender_, receivers_.back()));
    }
    Seen rest;
    drain(receivers_[0], rest, milliseconds(50));
  }

  std::vector<Seen> send_all() {
    return exchange(sender_, {&receivers_[0], &receivers_[1]}, kCount);
  }

  void impair(const Impairments& impairments) {
    const Status status = lab_->set_impairments(impairments);
    ASSERT_TRUE(status) << status.to_string();
  }

  std::optional<Lab> lab_;
  device::Descriptor sender_;
  std::vector<device::Descriptor> receivers_;
};

TEST_F(ImpairedLab, IndependentLoss_dropsDifferentDatagramsAtEachReceiver) {
  ASSERT_TRUE(lab_->set_loss(10));
  const std::vector<Seen> seen = send_all();
  for (const Seen& one : seen) {
    EXPECT_EQ(one.unique().size(), one.order.size());
    EXPECT_GE(kCount - one.order.size(), kLeast);
    EXPECT_LE(kCount - one.order.size(), kMost);
  }
  EXPECT_NE(seen[0].unique(), seen[1].unique());
  ASSERT_TRUE(lab_->set_loss(0));
  for (const Seen& one : send_all()) EXPECT_EQ(one.order.size(), kCount);
}

TEST_F(ImpairedLab, SharedLoss_dropsTheSameDatagramsAtAllReceivers) {
  ASSERT_TRUE(lab_->set_loss(0, 10));
  const std::vector<Seen> seen = send_all();
  EXPECT_GE(kCount - seen[0].order.size(), kLeast);
  EXPECT_LE(kCount - seen[0].order.size(), kMost);
  EXPECT_EQ(seen[0].order, seen[1].order);
}

TEST_F(ImpairedLab, BurstLoss_dropsConsecutiveDatagrams) {
  Impairments impairments;
  impairments.burst_loss = {1, 10};
  impair(impairments);
  const std::set<std::uint32_t> seen = send_all()[0].unique();
  std::size_t lost = 0;
  std::size_t runs = 0;
  bool before_lost = false;
  for (std::uint32_t sequence = 0; sequence < kCount; ++sequence) {
    const bool is_lost = !seen.contains(sequence);
    lost += is_lost;
    runs += is_lost && !before_lost;
    before_lost = is_lost;
  }
  // About 18 runs of 10 consecutive losses each are expected. Independent losses would form runs of
  // about 1.1 losses.
  ASSERT_GT(runs, 2u);
  EXPECT_LT(runs, 60u);
  EXPECT_GT(lost, 3 * runs);
}

TEST_F(ImpairedLab, CorruptedDatagram_isDeliveredWithOneByteChanged) {
  Impairments impairments;
  impairments.corrupt_percent = 10;
  impair(impairments);
  for (const Seen& one : send_all()) {
    ASSERT_EQ(one.order.size(), kCount);
    EXPECT_EQ(one.unique().size(), kCount);
    EXPECT_GE(one.corrupt, static_cast<int>(kLeast));
    EXPECT_LE(one.corrupt, static_cast<int>(kMost));
  }
}

TEST_F(ImpairedLab, Duplication_limitedToOneHost_duplicatesNoDatagramAtOtherHosts) {
  if (!support().detour) return test::skip_without("netadmin", support().detour.message());
  Impairments impairments;
  impairments.duplicate_percent = 10;
  impairments.only_hosts = {2};
  impair(impairments);
  const std::vector<Seen> seen = send_all();
  EXPECT_EQ(seen[0].order.size(), kCount);
  EXPECT_EQ(seen[1].unique().size(), kCount);
  EXPECT_GE(seen[1].order.size() - kCount, kLeast);
  EXPECT_LE(seen[1].order.size() - kCount, kMost);
}

TEST_F(ImpairedLab, ReorderedDatagrams_allArrive) {
  if (!support().detour) return test::skip_without("netadmin", support().detour.message());
  if (!support().shaping) return test::skip_without("netadmin", support().shaping.message());
  Impairments impairments;
  impairments.reorder_percent = 5;
  impair(impairments);
  for (const Seen& one : send_all()) {
    EXPECT_EQ(one.order.size(), kCount);
    EXPECT_EQ(one.unique().size(), kCount);
    // About 100 datagrams are delayed. A delayed datagram counts as late only if a later datagram
    // overtakes it, which happens less often if this machine sends slowly.
    EXPECT_GT(one.late(), 0);
    EXPECT_LT(one.late(), 200);
  }
}

TEST_F(ImpairedLab, ImpossibleImpairmentsAreRefused) {
  Impairments impairments;
  impairments.loss_percent = 101;
  EXPECT_EQ(lab_->set_impairments(impairments).code(), Code::invalid_argument);
  impairments.loss_percent = 1;
  impairments.only_hosts = {3};
  EXPECT_EQ(lab_->set_impairments(impairments).code(), Code::invalid_argument);
  for (const Seen& one : send_all()) EXPECT_EQ(one.order.size(), kCount);
}

TEST(Lab, LinkThatIsDown_losesDatagrams_untilItIsUpAgain) {
  if (!support().temporary) return test::skip_without("lab", support().temporary.message());
  Lab lab = must_create(small_lab(2));
  const device::Descriptor sender = sender_on(lab, 0, kGroup);
  const device::Descriptor member = receiver_on(lab, 1);
  join(member, lab.address(1));
  ASSERT_TRUE(reaches(sender, member));
  ASSERT_TRUE(lab.link_down(1));
  Seen rest;
  drain(member, rest, milliseconds(50));
  const std::vector<Seen> seen = exchange(sender, {&member}, 100);
  EXPECT_TRUE(seen[0].order.empty());
  ASSERT_TRUE(lab.link_up(1));
  EXPECT_TRUE(reaches(sender, member));
  EXPECT_EQ(lab.link_down(2).code(), Code::invalid_argument);
}

/// Whether processes on `host` may use exactly the cores in `cores`.
bool runs_on(const Lab& lab, int host, cpu_set_t cores) {
  Result<pid_t> child = lab.fork_on(host, [cores] {
    cpu_set_t own;
    return sched_getaffinity(0, sizeof own, &own) == 0 && CPU_EQUAL(&own, &cores) ? 0 : 1;
  });
  if (!child) return false;
  Result<int> exit = launch::wait_for(*child);
  return exit.ok() && *exit == 0;
}

TEST(Lab, ProgramsOfAHost_runOnlyOnTheCoresOfTheHost) {
  if (!support().temporary) return test::skip_without("lab", support().temporary.message());
  LabOptions options = small_lab(3);
  struct Case {
    int aggregators;
    CoreShares division;
  };
  for (const auto& [aggregators, division] :
       {Case{0, CoreShares::traffic}, Case{1, CoreShares::traffic}, Case{1, CoreShares::hosts}}) {
    options.aggregators = aggregators;
    options.core_shares = division;
    const Lab lab = must_create(options);
    const std::vector<cpu_set_t> shares = shares_of_cores(3, aggregators, division);
    for (int host = 0; host < 3; ++host) {
      EXPECT_TRUE(runs_on(lab, host, shares[static_cast<std::size_t>(host)])) << "host " << host;
    }
  }
}

TEST(Lab, LabsOnOneMachine_areIsolatedFromEachOther) {
  if (!support().temporary) return test::skip_without("lab", support().temporary.message());
  const Lab one = must_create(small_lab(2));
  const Lab other = must_create(small_lab(2));
  EXPECT_NE(one.name(), other.name());
  const device::Descriptor sender = sender_on(one, 0, one.address(1));
  const device::Descriptor here = receiver_on(one, 1);
  const device::Descriptor there = receiver_on(other, 1);
  ASSERT_TRUE(reaches(sender, here));
  const std::vector<Seen> seen = exchange(sender, {&here, &there}, 100);
  EXPECT_EQ(seen[0].order.size(), 100u);
  EXPECT_TRUE(seen[1].order.empty());
  EXPECT_FALSE(seen[1].probed);
}

TEST(Lab, TearDown_killsTheProcesses_andRemovesTheNamespaces) {
  if (!support().temporary) return test::skip_without("lab", support().temporary.message());
  Lab lab = must_create(small_lab(2));
  const std::string name = lab.name();
  const ino_t inode = host_inode(lab, 1);
  ASSERT_NE(inode, 0u);
  launch::SpawnRequest sleeper;
  sleeper.arguments = {"sleep", "600"};
  Result<pid_t> inside = lab.spawn_on(1, sleeper);
  ASSERT_TRUE(inside) << inside.status().to_string();
  EXPECT_TRUE(namespace_in_use(inode));
  EXPECT_TRUE(Lab::attach(name)) << "other processes must find the lab while its owner runs";
  // The test keeps the namespace open. Otherwise the kernel could give its inode number to a
  // namespace that another test makes.
  const device::Descriptor held(::fcntl(lab.host_place(1)->network, F_DUPFD_CLOEXEC, 0));
  ASSERT_TRUE(lab.tear_down());
  EXPECT_EQ(*launch::wait_for(*inside), 128 + SIGKILL);
  EXPECT_FALSE(namespace_in_use(inode));
  EXPECT_EQ(Lab::attach(name).status().code(), Code::invalid_argument);
}

TEST(Lab, LabWhoseProcessWasKilled_isRemovedAsAbandoned) {
  if (!support().temporary) return test::skip_without("lab", support().temporary.message());
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const std::string name = "killed-" + std::to_string(getpid());
  Result<pid_t> owner = launch::fork_into({}, [&] {
    LabOptions options = small_lab(2);
    options.name = name;
    Result<Lab> lab = Lab::create(options);
    const char told = lab ? 'y' : 'n';
    (void)!write(ends[1], &told, 1);
    pause();
    return 0;
  });
  ASSERT_TRUE(owner);
  char told = 0;
  ASSERT_EQ(read(ends[0], &told, 1), 1);
  close(ends[0]);
  close(ends[1]);
  const Result<LabState> state = recorded(name);
  kill(*owner, SIGKILL);
  ASSERT_TRUE(launch::wait_for(*owner));
  ASSERT_EQ(told, 'y');
  ASSERT_TRUE(state) << state.status().to_string();
  EXPECT_TRUE(state->abandoned());
  EXPECT_TRUE(wait_until([&] { return launch::process_start(state->keeper) == 0; }));
  // The names that remove_abandoned_labs() returns are not checked, because another test that runs
  // at the same time may have removed this lab already.
  remove_abandoned_labs();
  EXPECT_FALSE(recorded(name));
}

TEST(Lab, PersistentLabStaysUntilRemoved) {
  if (!support().persistent) return test::skip_without("netadmin", support().persistent.message());
  LabOptions options = small_lab(2);
  options.persistent = true;
  options.name = "stays-" + std::to_string(getpid());
  const std::string file = "/run/netns/tutti-" + options.name + "-h1";
  {
    const Lab lab = must_create(options);
    EXPECT_EQ(lab.host_namespace(1), "tutti-" + options.name + "-h1");
  }
  EXPECT_TRUE(std::filesystem::exists(file));
  EXPECT_FALSE(Lab::create(options)) << "a second lab must not take the same name";
  Result<Lab> found = Lab::attach(options.name);
  ASSERT_TRUE(found) << found.status().to_string();
  const device::Descriptor receiver = receiver_on(*found, 1);
  EXPECT_TRUE(reaches(sender_on(*found, 0, found->address(1)), receiver));
  EXPECT_TRUE(remove_lab(options.name));
  EXPECT_FALSE(std::filesystem::exists(file));
  EXPECT_FALSE(recorded(options.name));
}

TEST(Lab, PartlyBuiltPersistentLabIsRemoved) {
  if (!support().persistent) return test::skip_without("netadmin", support().persistent.message());
  Result<pid_t> gone = launch::fork_into({}, [] { return 0; });
  ASSERT_TRUE(gone && launch::wait_for(*gone));
  LabState state;
  state.options = small_lab(2);
  state.options.name = "half-" + std::to_string(getpid());
  state.options.persistent = true;
  state.owner = *gone;
  state.owner_start = 1;
  const std::string space = "tutti-" + state.options.name + "-sw";
  ASSERT_TRUE(launch::run_checked({}, {"ip", "netns", "add", space}, {}, "prepare"));
  ASSERT_TRUE(record_new(state));
  // The names that remove_abandoned_labs() returns are not checked, because another test that runs
  // at the same time may have removed this lab already.
  remove_abandoned_labs();
  EXPECT_TRUE(wait_until([&] { return !std::filesystem::exists("/run/netns/" + space); }));
  EXPECT_TRUE(wait_until([&] { return !recorded(state.options.name).ok(); }));
}

/// The lines that the ranks of a run print, indexed by rank.
struct Lines {
  std::map<int, std::vector<std::string>> output;
  std::map<int, std::vector<std::string>> error;

  std::function<void(int, bool, std::string_view)> collector() {
    return [this](int rank, bool is_error, std::string_view line) {
      (is_error ? error : output)[rank].emplace_back(line);
    };
  }
};

TEST(Runner, EachRank_runsOnItsHost_withItsEnvironmentVariables) {
  if (!support().temporary) return test::skip_without("lab", support().temporary.message());
  const Lab lab = must_create(small_lab(3));
  Lines lines;
  RunOptions options;
  options.arguments = {"sh", "-c",
                       "echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE "
                       "$MASTER_ADDR:$MASTER_PORT $TUTTI_INTERFACE $EXTRA; uname -n; "
                       "printf unfinished >&2"};
  options.environment = {"EXTRA=more", "MASTER_PORT=30000"};
  options.on_line = lines.collector();
  Result<RunReport> report = run_ranks(lab, options);
  ASSERT_TRUE(report) << report.status().to_string();
  EXPECT_EQ(report->exit_status, 0);
  EXPECT_EQ(report->first_failed, -1);
  EXPECT_EQ(report->exit_statuses, (std::vector<int>{0, 0, 0}));
  EXPECT_EQ(report->traffic.size(), 3u);
  for (int rank = 0; rank < 3; ++rank) {
    const std::string number = std::to_string(rank);
    EXPECT_EQ(
        lines.output[rank],
        (std::vector<std::string>{number + "/3 0/1 10.77.0.1:30000 eth0 more", "host" + number}));
    EXPECT_EQ(lines.error[rank], std::vector<std::string>{"unfinished"});
  }
}

TEST(Runner, FirstFailedRank_isReported_andTheOtherRanksAreEnded) {
  if (!support().temporary) return test::skip_without("lab", support().temporary.message());
  const Lab lab = must_create(small_lab(3));
  RunOptions options;
  options.arguments = {"sh", "-c", "[ $RANK = 1 ] && exit 7; sleep 600"};
  options.grace_ms = 50;
  options.on_line = [](int, bool, std::string_view) {};
  Result<RunReport> report = run_ranks(lab, options);
  ASSERT_TRUE(report) << report.status().to_string();
  EXPECT_EQ(report->first_failed, 1);
  EXPECT_EQ(report->exit_status, 7);
  EXPECT_EQ(report->exit_statuses, (std::vector<int>{128 + SIGTERM, 7, 128 + SIGTERM}));
}

TEST(Runner, RanksThatIgnoreTheTimeLimitAreKilled) {
  if (!support().temporary) return test::skip_without("lab", support().temporary.message());
  const Lab lab = must_create(small_lab(1));
  RunOptions options;
  options.arguments = {"sh", "-c", "trap '' TERM; echo ready; sleep 600 & wait; sleep 600"};
  bool ready = false;
  options.on_line = [&ready](int, bool, std::string_view) { ready = true; };
  // If the time limit passes before the shell has executed `trap`, SIGTERM ends the shell. The test
  // then repeats the run with a longer limit.
  for (options.timeout_ms = 200; !ready; options.timeout_ms *= 2) {
    Result<RunReport> report = run_ranks(lab, options);
    ASSERT_TRUE(report) << report.status().to_string();
    EXPECT_TRUE(report->timed_out);
    EXPECT_EQ(report->exit_status, 124);
    EXPECT_EQ(report->exit_statuses[0], 128 + (ready ? SIGKILL : SIGTERM));
  }
}

TEST(Runner, MissingProgramIsReported) {
  if (!support().temporary) return test::skip_without("lab", support().temporary.message());
  const Lab lab = must_create(small_lab(2));
  RunOptions options;
  options.arguments = {"/nonexistent/program"};
  Result<RunReport> report = run_ranks(lab, options);
  ASSERT_FALSE(report);
  EXPECT_NE(report.status().message().find("/nonexistent/program"), std::string::npos);
}

/// Runs ranks in a child process without root privileges. Returns 0 on success, and 77 if this
/// machine lets only root build labs. The text of an error goes to the descriptor `told`.
int run_as_plain_user(int told) {
  constexpr unsigned kNobody = 65534;
  if (setgroups(0, nullptr) != 0 || setresgid(kNobody, kNobody, kNobody) != 0 ||
      setresuid(kNobody, kNobody, kNobody) != 0) {
    return 2;
  }
  // After a process has changed its user, it cannot open its own files in /proc unless it is
  // dumpable.
  prctl(PR_SET_DUMPABLE, 1);
  unsetenv("XDG_RUNTIME_DIR");
  const auto tell = [told](const std::string& text) {
    (void)!write(told, text.data(), text.size());
    return 1;
  };
  const LabSupport able = lab_support();
  if (!able.temporary) return tell(able.temporary.message()), 77;
  Result<Lab> lab = Lab::create(small_lab(3));
  if (!lab) return tell(lab.status().to_string());
  Lines lines;
  RunOptions options;
  options.arguments = {"sh", "-c", "ip -br address show eth0; exit $RANK"};
  options.on_line = lines.collector();
  Result<RunReport> report = run_ranks(*lab, options);
  if (!report) return tell(report.status().to_string());
  if (report->exit_statuses != std::vector<int>{0, 1, 2}) return tell("wrong exit statuses");
  for (int rank = 0; rank < 3; ++rank) {
    const auto& output = lines.output[rank];
    if (output.size() != 1 || output[0].find(lab->address(rank)) == std::string::npos) {
      return tell("rank without its address");
    }
  }
  LabOptions persistent = small_lab(2);
  persistent.persistent = true;
  if (Lab::create(persistent).status().code() != Code::unsupported) return tell("not refused");
  const std::string name = lab->name();
  if (Status status = lab->tear_down(); !status) return tell(status.to_string());
  return recorded(name) ? tell("still recorded") : 0;
}

TEST(Runner, UserWithoutRootPrivileges_canRunRanks) {
  if (!support().temporary) return test::skip_without("lab", support().temporary.message());
  if (geteuid() != 0)
    return test::skip_without("root",
                              "this test needs root; the other tests already run as a plain user");
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  Result<pid_t> child = launch::fork_into({}, [&ends] { return run_as_plain_user(ends[1]); });
  close(ends[1]);
  ASSERT_TRUE(child);
  const Result<int> status = launch::wait_for(*child);
  std::string told(1000, '\0');
  const ssize_t count = read(ends[0], told.data(), told.size());
  told.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
  close(ends[0]);
  ASSERT_TRUE(status);
  if (*status == 77) return test::skip_without("lab", told);
  EXPECT_EQ(*status, 0) << told;
}

TEST(Options, RatesAreParsed) {
  EXPECT_EQ(*parse_rate("off"), 0u);
  EXPECT_EQ(*parse_rate("100mbit"), 100'000'000u);
  EXPECT_EQ(*parse_rate("2.5gbit"), 2'500'000'000u);
  for (const char* wrong : {"", "fast", "-1gbit", "1gb", "0", "1e400", "nan"}) {
    EXPECT_FALSE(parse_rate(wrong)) << wrong;
  }
}

TEST(Options, BurstLossIsParsed) {
  for (const char* text : {"0.1%,10%", "0.1,10"}) {
    const Result<BurstLoss> loss = parse_burst_loss(text);
    ASSERT_TRUE(loss) << text;
    EXPECT_DOUBLE_EQ(loss->enter_percent, 0.1);
    EXPECT_DOUBLE_EQ(loss->leave_percent, 10);
  }
  for (const char* wrong : {"", "1", "1,", ",1", "1%%,2", "1,2,3"}) {
    EXPECT_FALSE(parse_burst_loss(wrong)) << wrong;
  }
}

TEST(Options, ImpossibleLabsAreRefused) {
  const auto refused = [](auto change) {
    LabOptions options;
    change(options);
    return check_options(options).code() == Code::invalid_argument;
  };
  EXPECT_TRUE(check_options({}));
  EXPECT_TRUE(refused([](LabOptions& o) { o.name = "../evil"; }));
  EXPECT_TRUE(refused([](LabOptions& o) { o.name = "-n"; }));
  EXPECT_TRUE(refused([](LabOptions& o) { o.name = std::string(25, 'a'); }));
  EXPECT_TRUE(refused([](LabOptions& o) { o.hosts = 0; }));
  EXPECT_TRUE(refused([](LabOptions& o) { o.hosts = 251; }));
  EXPECT_TRUE(refused([](LabOptions& o) { o.mtu = 70000; }));
  EXPECT_TRUE(refused([](LabOptions& o) { o.mtu = 1000, o.ipv6 = true; }));
  EXPECT_TRUE(refused([](LabOptions& o) { o.burst_bytes = 100; }));
  EXPECT_TRUE(refused([](LabOptions& o) { o.rate_bits_per_second = 1; }));
  EXPECT_TRUE(refused([](LabOptions& o) { o.congestion_control = "a b"; }));
  EXPECT_TRUE(refused([](LabOptions& o) { o.impairments.loss_percent = -1; }));
  EXPECT_TRUE(refused([](LabOptions& o) { o.impairments.loss_percent = 0.00001; }));
  EXPECT_TRUE(refused([](LabOptions& o) { o.impairments.burst_loss = {1, 0}; }));
}

TEST(Options, ShaperBurst_atHighRates_holdsSeveralOfTheLongestPackets) {
  LabOptions options;
  options.rate_bits_per_second = 1'000'000'000;
  EXPECT_GE(burst_bytes_of(options), 128u * 1024);
  options.rate_bits_per_second = 5'000'000'000;
  EXPECT_GE(burst_bytes_of(options), 256u * 1024);
}

}  // namespace
}  // namespace tutti::lab
