#include "device/ip/multicast/multicast_queue_pair.hpp"

#include <linux/filter.h>
#include <linux/sock_diag.h>
#include <net/if.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/error.hpp"
#include "device/ip/datagram_batch.hpp"

namespace tutti::device::ip {

namespace {

/// Makes the kernel drop this rank's own datagrams. Without this filter they would arrive through
/// the loopback interface, and through any other interface if another rank of this host needs
/// IP_MULTICAST_LOOP.
Status drop_own_datagrams(int fd, Rank me) {
  constexpr std::uint32_t kUdpHeaderBytes = 8;
  // The filter loads words in network order, but the header is little-endian, so the number of the
  // rank is byte-swapped.
  const std::uint32_t own = __builtin_bswap32(index(me));
  std::array<sock_filter, 4> program{{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kUdpHeaderBytes + wire::kSourceOffset),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, own, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, 0),
      BPF_STMT(BPF_RET | BPF_K, 0xffff'ffffu),
  }};
  const sock_fprog filter{static_cast<unsigned short>(program.size()), program.data()};
  if (::setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter) == 0) return {};
  return system_failure(errno, "attaching the filter that drops this rank's own datagrams");
}

/// Limits the socket to the groups that it has joined itself. Otherwise it would also receive the
/// datagrams of groups that other sockets of this host have joined at the same port.
Status hear_joined_groups_only(int fd, int family) {
  if (family == AF_INET) return set_option(fd, IPPROTO_IP, IP_MULTICAST_ALL, 0, "IP_MULTICAST_ALL");
  return set_option(fd, IPPROTO_IPV6, IPV6_MULTICAST_ALL, 0, "IPV6_MULTICAST_ALL");
}

SocketAddress any_address(int family, std::uint16_t port) {
  return family == AF_INET6 ? SocketAddress::v6(in6addr_any, port, 0)
                            : SocketAddress::v4({.s_addr = htonl(INADDR_ANY)}, port);
}

Status select_interface(int fd, const Interface& interface, int family) {
  if (family == AF_INET6) {
    return set_option(fd, IPPROTO_IPV6, IPV6_MULTICAST_IF, static_cast<int>(interface.index),
                      "IPV6_MULTICAST_IF");
  }
  ip_mreqn request{};
  request.imr_ifindex = static_cast<int>(interface.index);
  request.imr_address = reinterpret_cast<const sockaddr_in*>(interface.address.get())->sin_addr;
  if (::setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &request, sizeof request) == 0) return {};
  return system_failure(errno, "choosing {} for multicast", interface.name);
}

/// Changes the membership of a socket; false, with errno set, if the kernel refuses.
bool set_membership(int fd, const GroupOnInterface& membership, bool on) {
  const SocketAddress& group = membership.group;
  if (group.family() == AF_INET6) {
    ipv6_mreq request{};
    request.ipv6mr_multiaddr = reinterpret_cast<const sockaddr_in6*>(group.get())->sin6_addr;
    request.ipv6mr_interface = membership.interface_index;
    return ::setsockopt(fd, IPPROTO_IPV6, on ? IPV6_JOIN_GROUP : IPV6_LEAVE_GROUP, &request,
                        sizeof request) == 0;
  }
  ip_mreqn request{};
  request.imr_multiaddr = reinterpret_cast<const sockaddr_in*>(group.get())->sin_addr;
  request.imr_ifindex = static_cast<int>(membership.interface_index);
  return ::setsockopt(fd, IPPROTO_IP, on ? IP_ADD_MEMBERSHIP : IP_DROP_MEMBERSHIP, &request,
                      sizeof request) == 0;
}

}  // namespace

void IpMulticastQueuePair::leave_group() {
  (void)set_membership(receive_.get(), membership_, false);
}

Status IpMulticastQueuePair::join_group() {
  // EADDRINUSE means that the socket is in the group already.
  if (set_membership(receive_.get(), membership_, true) || errno == EADDRINUSE) return {};
  return system_failure(errno, "joining group {} on {}", membership_.group.to_string(),
                        membership_.interface_name);
}

Status IpMulticastQueuePair::open_receive(const Interface& interface, const SocketAddress& group) {
  membership_ = {group, interface.index, interface.name};
  auto socket = open_udp(group.family());
  if (!socket) return socket.status();
  receive_ = std::move(*socket);
  const int fd = receive_.get();
  // Several ranks of one host may listen to the same group and port.
  if (Status s = set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1, "SO_REUSEADDR"); !s) return s;
  if (Status s = hear_joined_groups_only(fd, group.family()); !s) return s;
  receive_buffer_bytes_ = enlarge_receive_buffer(fd, settings_.receive_buffer_bytes);
  enable_receive_offload(fd);
  if (Status s = drop_own_datagrams(fd, settings_.rank); !s) return s;
  if (Status s = bind_receive(group); !s) return s;
  return join_group();
}

Status IpMulticastQueuePair::bind_receive(const SocketAddress& group) {
  const int fd = receive_.get();
  // This rank can receive unicast only if no other rank of its host uses the port: on a shared
  // port, an address does not identify one rank.
  if (settings_.slots && !settings_.shared_host) {
    const SocketAddress any = any_address(group.family(), group.port());
    if (::bind(fd, any.get(), any.length()) == 0) {
      unicast_port_ = group.port();
      return {};
    }
    // The port is in use on an address of this host, so the socket is bound to the group address
    // only.
    if (errno != EADDRINUSE) return system_failure(errno, "binding to {}", any.to_string());
  }
  if (::bind(fd, group.get(), group.length()) == 0) return {};
  return system_failure(errno, "binding to group {}", group.to_string());
}

Status IpMulticastQueuePair::open_send(const Interface& interface, const SocketAddress& group) {
  auto socket = open_udp(group.family());
  if (!socket) return socket.status();
  send_ = std::move(*socket);
  const int fd = send_.get();
  const bool six = group.family() == AF_INET6;
  if (Status s = select_interface(fd, interface, group.family()); !s) return s;
  const int level = six ? IPPROTO_IPV6 : IPPROTO_IP;
  const int loop = settings_.shared_host ? 1 : 0;
  looped_back_ = settings_.shared_host || interface.loopback;
  Status s =
      set_option(fd, level, six ? IPV6_MULTICAST_LOOP : IP_MULTICAST_LOOP, loop, "MULTICAST_LOOP");
  if (!s) return s;
  const int hops = static_cast<int>(settings_.hops);
  s = set_option(fd, level, six ? IPV6_MULTICAST_HOPS : IP_MULTICAST_TTL, hops, "MULTICAST_TTL");
  if (!s) return s;
  s = gate_.open(fd, group.family(), settings_.traffic);
  if (!s) return s;
  s = set_option(fd, SOL_SOCKET, SO_SNDBUF, settings_.send_buffer_bytes, "SO_SNDBUF");
  if (!s) return s;
  // The socket is bound to the address of this rank, because receivers reject datagrams from other
  // addresses.
  SocketAddress own = interface.address;
  own.set_port(0);
  if (::bind(fd, own.get(), own.length()) != 0)
    return system_failure(errno, "binding to {}", own.to_string());
  if (::connect(fd, group.get(), group.length()) == 0) return {};
  return system_failure(
      errno, "group {} has no route through {} (run {} dev {})", group.to_string(), interface.name,
      six ? "ip -6 route add multicast ff00::/8 table local" : "ip route add 224.0.0.0/4",
      interface.name);
}

void IpMulticastQueuePair::write_header(wire::PacketKind kind, std::uint32_t epoch,
                                        std::uint32_t psn, std::span<const std::byte> payload,
                                        std::byte* header) {
  wire::encode({.kind = kind,
                .subgroup = static_cast<std::uint8_t>(subgroup_),
                .communicator = settings_.communicator,
                .source = settings_.rank,
                .epoch = epoch,
                .psn = psn,
                .counter = ++sent_},
               header);
  keys_.seal(header, payload);
}

std::uint64_t IpMulticastQueuePair::unsent_bytes() { return ip::unsent_bytes(send_.get()); }

// If the interface has no unsent bytes of this socket, a few chunks may be sent even while data of
// a higher egress priority waits, so that no call stalls.
std::size_t IpMulticastQueuePair::begin_post(const ChunkRun& run) {
  constexpr std::uint64_t kMinBytes = 6000;
  gate_.use(run.priority);
  const auto allowed = gate_.allowed_bytes(run.priority);
  if (!allowed || *allowed >= run.data.size()) return run.data.size();
  const std::uint64_t least =
      unsent_bytes() == 0 ? std::max<std::uint64_t>(kMinBytes, run.chunk_bytes) : 0;
  const std::uint64_t chunks = std::max(*allowed, least) / run.chunk_bytes;
  const std::uint64_t bytes = std::min<std::uint64_t>(chunks * run.chunk_bytes, run.data.size());
  if (bytes < run.data.size()) ++counters_.multicast_posts_held_back;
  return bytes;
}

std::optional<wire::Header> IpMulticastQueuePair::accept(wire::PacketKind kind,
                                                         std::span<const std::byte> datagram,
                                                         const SocketAddress& from) {
  const auto header = wire::decode(datagram);
  const bool wanted = header && ours(*header, from);
  if (wanted && header->kind == kind) return header;
  if (!wanted || !is_kept(header->kind)) {
    ++received_.rejected_foreign;
    return std::nullopt;
  }
  const auto payload = datagram.subspan(wire::kHeaderBytes);
  const auto tag = [&](const wire::Integrity& word) { return word.tag(datagram.data(), payload); };
  if (passes(header->source, datagram.data(), tag) && !keep(*header, payload))
    ++received_.arrivals_dropped;
  return std::nullopt;
}

bool IpMulticastQueuePair::keep(const wire::Header& header, std::span<const std::byte> payload) {
  if (header.kind == wire::PacketKind::probe) {
    const auto bytes = static_cast<std::uint32_t>(wire::kHeaderBytes + payload.size());
    return probes_.add({header.source, subgroup_, bytes});
  }
  const bool for_another_rank = header.psn != index(settings_.rank);
  return for_another_rank || frames_.add({header.source, {payload.begin(), payload.end()}});
}

template <typename Compute>
bool IpMulticastQueuePair::passes(Rank source, const std::byte* header, Compute&& compute) {
  const auto verdict = arrivals_.judge(source, wire::counter_of(header), wire::tag_of(header),
                                       std::forward<Compute>(compute));
  if (verdict == wire::ArrivalCheck::Verdict::damaged) ++received_.rejected_integrity;
  if (verdict == wire::ArrivalCheck::Verdict::replayed) ++received_.rejected_replayed;
  return verdict == wire::ArrivalCheck::Verdict::fresh;
}

bool IpMulticastQueuePair::copy_and_verify(const ReceivedChunk& chunk, std::byte* destination) {
  const bool there = destination == nullptr || destination == chunk.payload.data();
  const auto tag = [&](const wire::Integrity& word) {
    return there ? word.tag(chunk.header, chunk.payload)
                 : word.copy_and_tag(destination, chunk.header, chunk.payload);
  };
  if (!passes(chunk.source, chunk.header, tag)) return false;
  received_.bytes.add(chunk.payload.size());
  return true;
}

Status IpMulticastQueuePair::post_probe(std::uint32_t attempt, std::uint32_t bytes) {
  const std::vector<std::byte> padding(std::max<std::size_t>(bytes, wire::kHeaderBytes) -
                                       wire::kHeaderBytes);
  return post_alone(wire::PacketKind::probe, attempt, 0, padding);
}

void IpMulticastQueuePair::post_frame(Rank to, std::span<const std::byte> frame) {
  if (post_alone(wire::PacketKind::group_frame, 0, index(to), frame).ok()) {
    ++counters_.reliable_frames_multicast;
  }
}

Status IpMulticastQueuePair::post_alone(wire::PacketKind kind, std::uint32_t epoch,
                                        std::uint32_t psn, std::span<const std::byte> payload) {
  write_header(kind, epoch, psn, payload, sender_.header_slot());
  sender_.add(wire::kHeaderBytes, payload);
  auto sent = sender_.flush(send_.get(), nullptr);
  return sent ? Status() : sent.status();
}

void IpMulticastQueuePair::add_to(EndpointCounters& counters) const {
  counters.multicast_datagrams_sent += counters_.multicast_datagrams_sent;
  counters.multicast_bytes_sent += counters_.multicast_bytes_sent;
  counters.multicast_datagrams_received += received_.datagrams.value();
  counters.multicast_bytes_received += received_.bytes.value();
  counters.rejected_foreign += received_.rejected_foreign.value();
  counters.rejected_integrity += received_.rejected_integrity.value();
  counters.rejected_replayed += received_.rejected_replayed.value();
  counters.kernel_drops += received_.arrivals_dropped.value();
  counters.multicast_posts_held_back += counters_.multicast_posts_held_back;
  counters.reliable_frames_multicast += counters_.reliable_frames_multicast;
  counters.send_queue_full += counters_.send_queue_full;
  counters.send_calls += sender_.calls();
  counters.receive_calls += received_.calls.value();
  std::array<std::uint32_t, SK_MEMINFO_VARS> memory{};
  socklen_t length = sizeof memory;
  if (::getsockopt(receive_.get(), SOL_SOCKET, SO_MEMINFO, memory.data(), &length) == 0) {
    // The kernel's count of drops includes this rank's own datagrams, which the filter dropped;
    // these are not losses.
    const std::uint64_t own = looped_back_ ? sender_.messages() : 0;
    const std::uint64_t drops = memory[SK_MEMINFO_DROPS];
    counters.kernel_drops += drops > own ? drops - own : 0;
  }
}

}  // namespace tutti::device::ip
