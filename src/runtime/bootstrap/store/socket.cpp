#include "runtime/bootstrap/store/socket.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <memory>

#include "base/error.hpp"
#include "runtime/bootstrap/text.hpp"

namespace tutti::runtime {
namespace {

constexpr int kBacklog = 4096;
constexpr auto kAcceptPause = std::chrono::milliseconds(100);

using AddressList = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

Result<AddressList> resolve(const Endpoint& endpoint, int flags) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const int error =
      getaddrinfo(endpoint.host.c_str(), std::to_string(endpoint.port).c_str(), &hints, &list);
  if (error != 0) {
    return failure(Code::invalid_argument, "cannot resolve the host name '{}': {}", endpoint.host,
                   gai_strerror(error));
  }
  return AddressList(list, &freeaddrinfo);
}

/// True for a name that denotes the local host on every host. Any other name may resolve to the
/// loopback address on this host, through /etc/hosts, and to another address on other hosts.
bool names_loopback(const std::string& host) {
  constexpr std::array kNames = {"localhost",  "localhost.localdomain", "localhost4",
                                 "localhost6", "ip6-localhost",         "ip6-loopback"};
  return std::any_of(kNames.begin(), kNames.end(),
                     [&](const char* name) { return ::strcasecmp(name, host.c_str()) == 0; });
}

Result<Socket> bind_and_listen(const Endpoint& endpoint, int family, const sockaddr* address,
                               socklen_t length, bool dual_stack) {
  Socket socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.open()) return system_failure(errno, "cannot open a TCP socket");
  const int on = 1;
  setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (family == AF_INET6) {
    const int only_v6 = dual_stack ? 0 : 1;
    setsockopt(socket.fd(), IPPROTO_IPV6, IPV6_V6ONLY, &only_v6, sizeof only_v6);
  }
  if (bind(socket.fd(), address, length) != 0 || listen(socket.fd(), kBacklog) != 0) {
    const int error = errno;
    const char* remedy = "";
    if (error == EADDRINUSE) remedy = " (another program owns the port: choose another one)";
    if (error == EADDRNOTAVAIL) remedy = " (run this process on the host that owns the address)";
    return system_failure(error, "cannot listen at {}{}", to_string(endpoint), remedy);
  }
  return socket;
}

Result<Socket> listen_everywhere(const Endpoint& endpoint) {
  sockaddr_in6 any6{};
  any6.sin6_family = AF_INET6;
  any6.sin6_port = htons(endpoint.port);
  auto socket = bind_and_listen(endpoint, AF_INET6, reinterpret_cast<const sockaddr*>(&any6),
                                sizeof any6, true);
  if (socket.ok()) return socket;
  // The host may lack IPv6, so IPv4 is tried next. If binding failed for another reason, such as a
  // port in use, the attempt by IPv4 fails for the same reason.
  sockaddr_in any4{};
  any4.sin_family = AF_INET;
  any4.sin_port = htons(endpoint.port);
  return bind_and_listen(endpoint, AF_INET, reinterpret_cast<const sockaddr*>(&any4), sizeof any4,
                         false);
}

/// True if the socket is connected to itself. This happens if nothing listens at a local port and
/// the kernel chooses this same port as the source port of the connection.
bool connected_to_itself(int fd) {
  sockaddr_storage local{};
  sockaddr_storage remote{};
  socklen_t local_length = sizeof local;
  socklen_t remote_length = sizeof remote;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&local), &local_length) != 0 ||
      getpeername(fd, reinterpret_cast<sockaddr*>(&remote), &remote_length) != 0) {
    return false;
  }
  return local_length == remote_length && std::memcmp(&local, &remote, local_length) == 0;
}

Result<Socket> connect_address(const addrinfo& address, const Endpoint& endpoint,
                               Deadline deadline) {
  Socket socket(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.open()) return system_failure(errno, "cannot open a TCP socket");
  int error = 0;
  if (connect(socket.fd(), address.ai_addr, address.ai_addrlen) != 0) error = errno;
  if (error == EINPROGRESS) {
    if (!wait_for(socket, POLLOUT, deadline)) {
      return failure(Code::timeout, "no answer from {}", to_string(endpoint));
    }
    socklen_t length = sizeof error;
    getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &error, &length);
  }
  if (error == 0 && connected_to_itself(socket.fd())) error = ECONNREFUSED;
  if (error != 0) return system_failure(error, "cannot connect to {}", to_string(endpoint));
  const int on = 1;
  setsockopt(socket.fd(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return socket;
}

}  // namespace

Deadline deadline_after(Nanoseconds timeout) {
  const Nanoseconds year = std::chrono::hours(24 * 365);
  return SteadyClock::now() + std::clamp(timeout, Nanoseconds(0), year);
}

int remaining_ms(Deadline deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - SteadyClock::now());
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, INT_MAX));
}

bool wait_for(const Socket& socket, short events, Deadline deadline) {
  while (true) {
    pollfd entry{socket.fd(), events, 0};
    const int ready = poll(&entry, 1, remaining_ms(deadline));
    if (ready > 0) return true;
    if (ready == 0 && SteadyClock::now() >= deadline) return false;
    if (ready < 0 && errno != EINTR) return false;
  }
}

int poll_timeout_ms(Deadline deadline) {
  return deadline == Deadline::max() ? -1 : remaining_ms(deadline);
}

Socket::~Socket() {
  if (fd_ >= 0) close(fd_);
}

Result<Endpoint> parse_endpoint(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  std::string_view host = text.substr(0, colon == text.npos ? 0 : colon);
  const bool bracketed = host.size() >= 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  const std::string_view digits = colon == text.npos ? "" : text.substr(colon + 1);
  const std::uint64_t port = parse_number(digits, 65535).value_or(0);
  const bool bare_ipv6 = !bracketed && host.find(':') != host.npos;
  const bool nested = host.find_first_of("[]") != host.npos;
  if (host.empty() || host.size() > 255 || bare_ipv6 || nested || port == 0) {
    return failure(Code::invalid_argument,
                   "'{}' is not an address: write host:port, or [address]:port for IPv6, with a "
                   "port from 1 to 65535",
                   text);
  }
  return Endpoint{std::string(host), static_cast<std::uint16_t>(port)};
}

std::string to_string(const Endpoint& endpoint) {
  const bool ipv6 = endpoint.host.find(':') != std::string::npos;
  return fmt::format("{}{}{}:{}", ipv6 ? "[" : "", endpoint.host, ipv6 ? "]" : "", endpoint.port);
}

std::string reachable_host() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return "127.0.0.1";
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, &freeifaddrs);
  std::string ipv6;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    const bool usable = entry->ifa_addr != nullptr && (entry->ifa_flags & IFF_UP) != 0 &&
                        (entry->ifa_flags & IFF_LOOPBACK) == 0;
    if (!usable) continue;
    char text[INET6_ADDRSTRLEN] = {};
    if (entry->ifa_addr->sa_family == AF_INET) {
      const auto* address = reinterpret_cast<const sockaddr_in*>(entry->ifa_addr);
      return inet_ntop(AF_INET, &address->sin_addr, text, sizeof text);
    }
    if (entry->ifa_addr->sa_family != AF_INET6 || !ipv6.empty()) continue;
    const auto* address = reinterpret_cast<const sockaddr_in6*>(entry->ifa_addr);
    // Link-local addresses are left out, because they are ambiguous on a host with several
    // interfaces.
    if (IN6_IS_ADDR_LINKLOCAL(&address->sin6_addr)) continue;
    ipv6 = inet_ntop(AF_INET6, &address->sin6_addr, text, sizeof text);
  }
  return ipv6.empty() ? "127.0.0.1" : ipv6;
}

Result<Socket> listen_on(const Endpoint& endpoint) {
  if (endpoint.host.empty()) return listen_everywhere(endpoint);
  auto literal = resolve(endpoint, AI_NUMERICHOST);
  auto list = literal.ok() ? std::move(literal) : resolve(endpoint, 0);
  if (!list.ok()) return list.status();
  const addrinfo* first = list->get();
  const bool exact = literal.ok() || names_loopback(endpoint.host);
  if (!exact) return listen_everywhere(endpoint);
  return bind_and_listen(endpoint, first->ai_family, first->ai_addr, first->ai_addrlen, false);
}

Result<std::uint16_t> bound_port(const Socket& socket) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  if (getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    return system_failure(errno, "cannot read the port of the listener");
  }
  const std::uint16_t port = address.ss_family == AF_INET6
                                 ? reinterpret_cast<sockaddr_in6&>(address).sin6_port
                                 : reinterpret_cast<sockaddr_in&>(address).sin_port;
  return ntohs(port);
}

Socket Listener::accept() {
  Socket accepted(accept4(socket_.fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  const bool exhausted = !accepted.open() && (errno == EMFILE || errno == ENFILE ||
                                              errno == ENOMEM || errno == ENOBUFS);
  if (exhausted) again_ = SteadyClock::now() + kAcceptPause;
  return accepted;
}

std::string peer_of(const Socket& socket) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> port{};
  auto* const peer = reinterpret_cast<sockaddr*>(&address);
  if (getpeername(socket.fd(), peer, &length) != 0 ||
      getnameinfo(peer, length, host.data(), host.size(), port.data(), port.size(),
                  NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return "an unknown address";
  }
  const bool six = address.ss_family == AF_INET6;
  return std::string(six ? "[" : "") + host.data() + (six ? "]:" : ":") + port.data();
}

std::string neighbourhood_of(const Socket& socket) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  if (getpeername(socket.fd(), reinterpret_cast<sockaddr*>(&address), &length) != 0) return {};
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address.ss_family != AF_INET6) {
    const auto& four = reinterpret_cast<const sockaddr_in&>(address);
    return inet_ntop(AF_INET, &four.sin_addr, text.data(), text.size());
  }
  in6_addr six = reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
  if (IN6_IS_ADDR_V4MAPPED(&six))
    return inet_ntop(AF_INET, &six.s6_addr[12], text.data(), text.size());
  std::fill(six.s6_addr + 8, six.s6_addr + 16, std::uint8_t{0});
  return inet_ntop(AF_INET6, &six, text.data(), text.size());
}

Result<Socket> connect_once(const Endpoint& endpoint, Deadline deadline) {
  auto list = resolve(endpoint, 0);
  if (!list.ok()) return list.status();
  Status last = failure(Code::system, "the name {} resolves to no address: correct the name",
                        to_string(endpoint));
  int left = 0;
  for (const addrinfo* entry = list->get(); entry != nullptr; entry = entry->ai_next) ++left;
  for (const addrinfo* entry = list->get(); entry != nullptr; entry = entry->ai_next, --left) {
    // Each address gets an equal share of the time that is left, so that an address that does not
    // answer leaves time for the other addresses.
    const auto now = SteadyClock::now();
    auto socket = connect_address(*entry, endpoint, now + (deadline - now) / left);
    if (socket.ok()) return socket;
    last = socket.status();
  }
  return last;
}

}  // namespace tutti::runtime
