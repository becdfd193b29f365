#include "device/ip/link_address.hpp"

#include <linux/neighbour.h>
#include <linux/rtnetlink.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <span>

namespace tutti::device::ip {

namespace {

/// A request of rtnetlink(7): a header, a body and attributes.
template <typename Body>
class Request {
 public:
  Request(std::uint16_t type, const Body& body) : content_{.body = body} {
    content_.header.nlmsg_len = kFixedBytes;
    content_.header.nlmsg_type = type;
    content_.header.nlmsg_flags = NLM_F_REQUEST;
  }
  void add(std::uint16_t type, std::span<const std::byte> value) {
    const rtattr attribute{.rta_len = static_cast<std::uint16_t>(RTA_LENGTH(value.size())),
                           .rta_type = type};
    std::byte* const at = content_.attributes.data() + (content_.header.nlmsg_len - kFixedBytes);
    std::memcpy(at, &attribute, sizeof attribute);
    std::memcpy(at + RTA_LENGTH(0), value.data(), value.size());
    content_.header.nlmsg_len += static_cast<std::uint32_t>(RTA_SPACE(value.size()));
  }
  std::span<const std::byte> bytes() const {
    return std::as_bytes(std::span(&content_, 1)).first(content_.header.nlmsg_len);
  }

 private:
  static constexpr std::uint32_t kFixedBytes = NLMSG_LENGTH(sizeof(Body));
  struct Content {
    nlmsghdr header{};
    Body body{};
    /// The largest request has two IPv6 addresses and an interface index as attributes.
    std::array<std::byte, 2 * RTA_SPACE(16) + RTA_SPACE(4)> attributes{};
  };
  static_assert(offsetof(Content, attributes) == kFixedBytes);
  Content content_;
};

using Answer = std::array<std::byte, 4096>;

/// Sends a request and returns the body and the attributes of the kernel's answer, a message of the
/// type `answers`. Returns nothing if the kernel reports an error.
template <typename Body>
std::span<const std::byte> ask(const Descriptor& socket, const Request<Body>& request,
                               std::uint16_t answers, Answer& answer) {
  const std::span<const std::byte> bytes = request.bytes();
  if (::send(socket.get(), bytes.data(), bytes.size(), 0) < 0) return {};
  const ssize_t received = ::recv(socket.get(), answer.data(), answer.size(), MSG_DONTWAIT);
  if (received < static_cast<ssize_t>(NLMSG_LENGTH(sizeof(Body)))) return {};
  nlmsghdr header;
  std::memcpy(&header, answer.data(), sizeof header);
  if (header.nlmsg_type != answers) return {};
  return std::span<const std::byte>(answer.data(), static_cast<std::size_t>(received))
      .subspan(NLMSG_HDRLEN);
}

/// The value of an attribute; empty if the attribute is absent.
std::span<const std::byte> value_of(std::span<const std::byte> attributes, std::uint16_t type) {
  while (attributes.size() >= sizeof(rtattr)) {
    rtattr attribute;
    std::memcpy(&attribute, attributes.data(), sizeof attribute);
    if (attribute.rta_len < sizeof attribute || attribute.rta_len > attributes.size()) break;
    if (attribute.rta_type == type) {
      return attributes.first(attribute.rta_len).subspan(RTA_LENGTH(0));
    }
    attributes =
        attributes.subspan(std::min<std::size_t>(RTA_ALIGN(attribute.rta_len), attributes.size()));
  }
  return {};
}

/// The IP address of the next hop to a host. It points into `answer` if the next hop is a gateway,
/// and into `peer` if the next hop is the host itself.
std::span<const std::byte> next_hop(const Descriptor& socket, const Interface& interface,
                                    const SocketAddress& peer, Answer& answer) {
  const std::span<const std::byte> host = peer.ip();
  rtmsg body{};
  body.rtm_family = static_cast<std::uint8_t>(peer.family());
  body.rtm_dst_len = static_cast<std::uint8_t>(8 * host.size());
  body.rtm_src_len = body.rtm_dst_len;
  Request<rtmsg> request(RTM_GETROUTE, body);
  request.add(RTA_DST, host);
  request.add(RTA_SRC, interface.address.ip());
  request.add(RTA_OIF, std::as_bytes(std::span(&interface.index, 1)));
  const auto route = ask(socket, request, RTM_NEWROUTE, answer);
  if (route.size() < sizeof body) return host;
  const auto gateway = value_of(route.subspan(sizeof body), RTA_GATEWAY);
  return gateway.size() == host.size() ? gateway : host;
}

}  // namespace

bool link_address_missing(const Interface& interface, const SocketAddress& peer) {
  const Descriptor socket(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
  if (!socket.valid()) return false;
  Answer answer;
  ndmsg body{};
  body.ndm_family = static_cast<std::uint8_t>(peer.family());
  body.ndm_ifindex = static_cast<int>(interface.index);
  Request<ndmsg> request(RTM_GETNEIGH, body);
  request.add(NDA_DST, next_hop(socket, interface, peer, answer));
  const auto neighbour = ask(socket, request, RTM_NEWNEIGH, answer);
  if (neighbour.size() < sizeof body) return false;
  std::memcpy(&body, neighbour.data(), sizeof body);
  return (body.ndm_state & (NUD_INCOMPLETE | NUD_FAILED)) != 0;
}

}  // namespace tutti::device::ip
