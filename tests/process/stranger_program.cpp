// An attacker outside the job. It captures the datagrams of a job at one host, and sends changed
// and unchanged copies from another host, with the addresses of the ranks as their source. It runs
// as root.
//
//   stranger_program WATCHED SENDING DATAGRAMS PER_SECOND
//
// WATCHED and SENDING name network namespaces of /run/netns. On average one datagram in ten is sent
// as it was seen; the others are changed. After DATAGRAMS, or SIGTERM, the program prints "sent N
// datagrams, B bytes, U of them unchanged, in S s".
#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "device/posix/descriptor.hpp"
#include "mutation.hpp"
#include "wire/header.hpp"

namespace {

using tutti::device::Descriptor;
using tutti::test::Bytes;
using Clock = std::chrono::steady_clock;

constexpr int kFailed = 3;
constexpr std::size_t kStock = 512;  // number of recent datagrams that are kept
constexpr std::size_t kBatch = 64;
constexpr int kBufferBytes = 1 << 24;
constexpr std::uint8_t kOwnTtl = 77;            // TTL that marks the packets of this program
constexpr std::size_t kMaxPayloadBytes = 1472;  // largest UDP payload at an MTU of 1500 bytes

volatile std::sig_atomic_t g_end_requested = 0;

void request_end(int) { g_end_requested = 1; }

int fail(const char* what) {
  std::fprintf(stderr, "%s: %s\n", what, std::strerror(errno));
  return kFailed;
}

/// Enters a named network namespace and opens a socket there.
Descriptor socket_in(const std::string& name, int family, int type, int protocol) {
  const Descriptor space(::open(("/run/netns/" + name).c_str(), O_RDONLY | O_CLOEXEC));
  if (!space.valid() || ::setns(space.get(), CLONE_NEWNET) != 0) return {};
  return Descriptor(::socket(family, type | SOCK_CLOEXEC, protocol));
}

/// A UDP datagram over IPv4, as the network carries it.
struct Packet {
  iphdr ip{};
  udphdr udp{};
  Bytes payload;
};

/// The most recent datagrams that the program has seen.
class Stock {
 public:
  explicit Stock(int fd) : fd_(fd) {}

  /// Stores datagrams that have arrived; reads at most `most` packets.
  void refresh(int most, tutti::Random& random) {
    for (int i = 0; i < most; ++i) {
      const ssize_t size = ::recv(fd_, room_.data(), room_.size(), MSG_DONTWAIT);
      if (size < 0) return;
      Packet seen;
      constexpr std::size_t kHeads = sizeof seen.ip + sizeof seen.udp;
      if (static_cast<std::size_t>(size) <= kHeads) continue;
      std::memcpy(&seen.ip, room_.data(), sizeof seen.ip);
      std::memcpy(&seen.udp, room_.data() + sizeof seen.ip, sizeof seen.udp);
      if (seen.ip.version != 4 || seen.ip.ihl != 5 || seen.ip.protocol != IPPROTO_UDP ||
          seen.ip.ttl == kOwnTtl)
        continue;
      const auto payload = std::span(room_).first(static_cast<std::size_t>(size)).subspan(kHeads);
      const auto datagram = one_of(payload, random);
      seen.payload.assign(datagram.begin(), datagram.end());
      if (packets_.size() < kStock) {
        packets_.push_back(std::move(seen));
      } else {
        packets_[next_++ % kStock] = std::move(seen);
      }
    }
  }
  const std::vector<Packet>& packets() const { return packets_; }

 private:
  /// One random datagram of a captured packet. The packet may be a segmented send, which the
  /// network interface cuts into datagrams later; all these datagrams begin with the same header
  /// fields.
  static std::span<const std::byte> one_of(std::span<const std::byte> packet,
                                           tutti::Random& random) {
    if (packet.size() <= kMaxPayloadBytes) return packet;
    const auto begins = [&](std::size_t at) {
      return std::memcmp(&packet[at], packet.data(), tutti::wire::kPsnOffset) == 0;
    };
    std::size_t step = tutti::wire::kHeaderBytes;
    while (step < kMaxPayloadBytes - tutti::wire::kHeaderBytes && !begins(step)) ++step;
    const std::size_t at = step * random.below(packet.size() / step);
    return packet.subspan(at, std::min(step, packet.size() - at));
  }

  int fd_;
  std::vector<std::byte> room_ = std::vector<std::byte>(1 << 16);
  std::vector<Packet> packets_;
  std::size_t next_ = 0;
};

class Sender {
 public:
  explicit Sender(int fd) : fd_(fd) {
    for (std::size_t i = 0; i < kBatch; ++i) {
      vectors_[i][0] = {&packets_[i].ip, sizeof(iphdr)};
      vectors_[i][1] = {&packets_[i].udp, sizeof(udphdr)};
    }
  }
  void add(const Packet& like, Bytes payload) {
    Packet& packet = packets_[count_];
    packet = {like.ip, like.udp, std::move(payload)};
    const std::size_t udp_bytes = sizeof(udphdr) + packet.payload.size();
    packet.udp.len = htons(static_cast<std::uint16_t>(udp_bytes));
    packet.udp.check = 0;  // 0: no UDP checksum; the kernel computes the checksum of the IP header
    packet.ip.tot_len = htons(static_cast<std::uint16_t>(sizeof(iphdr) + udp_bytes));
    packet.ip.id = 0;
    packet.ip.ttl = kOwnTtl;
    packet.ip.check = 0;
    vectors_[count_][2] = {packet.payload.data(), packet.payload.size()};
    sockaddr_in& to = addresses_[count_];
    to = {.sin_family = AF_INET, .sin_port = 0, .sin_addr = {packet.ip.daddr}, .sin_zero = {}};
    messages_[count_].msg_hdr = {.msg_name = &to,
                                 .msg_namelen = sizeof to,
                                 .msg_iov = vectors_[count_].data(),
                                 .msg_iovlen = vectors_[count_].size(),
                                 .msg_control = nullptr,
                                 .msg_controllen = 0,
                                 .msg_flags = 0};
    ++count_;
  }
  bool full() const { return count_ == kBatch; }
  /// Sends the datagrams that were added, and returns the number of those that the kernel accepted.
  std::uint64_t flush() {
    std::uint64_t sent = 0;
    for (std::size_t at = 0; at < count_;) {
      const int some =
          ::sendmmsg(fd_, messages_.data() + at, static_cast<unsigned>(count_ - at), 0);
      if (some > 0) sent += static_cast<std::uint64_t>(some);
      at += some > 0 ? static_cast<std::size_t>(some) : 1;  // skips a refused datagram
    }
    count_ = 0;
    return sent;
  }

 private:
  int fd_;
  std::size_t count_ = 0;
  std::array<Packet, kBatch> packets_{};
  std::array<std::array<iovec, 3>, kBatch> vectors_{};
  std::array<sockaddr_in, kBatch> addresses_{};
  std::array<mmsghdr, kBatch> messages_{};
};

int attack(Stock& stock, Sender& sender, std::uint64_t datagrams, std::uint64_t per_second) {
  tutti::Random random(11);
  while (stock.packets().size() < kStock / 2 && g_end_requested == 0) {
    stock.refresh(64, random);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  std::uint64_t sent = 0;
  std::uint64_t unchanged = 0;
  std::uint64_t bytes = 0;
  const auto begun = Clock::now();
  while (sent < datagrams && g_end_requested == 0) {
    stock.refresh(2 * kBatch, random);
    while (!sender.full()) {
      const auto& packets = stock.packets();
      const Packet& one = packets[random.below(packets.size())];
      Bytes payload = one.payload;
      if (random.below(10) == 0) {
        ++unchanged;
      } else {
        payload =
            tutti::test::change(payload, packets[random.below(packets.size())].payload, random);
        payload.resize(std::min(payload.size(), kMaxPayloadBytes));
        if (payload == one.payload) continue;
      }
      bytes += payload.size();
      sender.add(one, std::move(payload));
    }
    sent += sender.flush();
    std::this_thread::sleep_until(begun +
                                  std::chrono::nanoseconds(sent * 1'000'000'000 / per_second));
  }
  const std::chrono::duration<double> took = Clock::now() - begun;
  std::puts(fmt::format("sent {} datagrams, {} bytes, {} of them unchanged, in {:.3f} s", sent,
                        bytes, unchanged, took.count())
                .c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: %s WATCHED SENDING DATAGRAMS PER_SECOND\n", argv[0]);
    return 2;
  }
  const Descriptor watch = socket_in(argv[1], AF_PACKET, SOCK_DGRAM, htons(ETH_P_ALL));
  if (!watch.valid())
    return fail("cannot open the watching socket as root in the namespace WATCHED");
  ::setsockopt(watch.get(), SOL_SOCKET, SO_RCVBUFFORCE, &kBufferBytes, sizeof kBufferBytes);
  const Descriptor send = socket_in(argv[2], AF_INET, SOCK_RAW, IPPROTO_RAW);
  if (!send.valid()) return fail("cannot open the sending socket as root in the namespace SENDING");
  ::setsockopt(send.get(), SOL_SOCKET, SO_SNDBUFFORCE, &kBufferBytes, sizeof kBufferBytes);
  ::signal(SIGTERM, request_end);
  Stock stock(watch.get());
  Sender sender(send.get());
  return attack(stock, sender, std::strtoull(argv[3], nullptr, 10),
                std::strtoull(argv[4], nullptr, 10));
}
