#include "device/ip/multicast/waiting_message.hpp"

#include <netinet/udp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>

namespace tutti::device::ip {

std::optional<WaitingMessage> look(int fd) {
  WaitingMessage waiting;
  iovec vector{waiting.storage.data(), waiting.storage.size()};
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(int))> control;
  msghdr header{};
  header.msg_iov = &vector;
  header.msg_iovlen = 1;
  header.msg_name = waiting.sender.get();
  header.msg_namelen = SocketAddress::kMaxBytes;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  const ssize_t length = ::recvmsg(fd, &header, MSG_PEEK | MSG_DONTWAIT | MSG_TRUNC);
  if (length < 0) return std::nullopt;
  waiting.bytes = waiting.datagram_bytes = static_cast<std::size_t>(length);
  const cmsghdr* offload = CMSG_FIRSTHDR(&header);
  if (offload != nullptr && offload->cmsg_level == SOL_UDP && offload->cmsg_type == UDP_GRO) {
    int size = 0;
    std::memcpy(&size, CMSG_DATA(offload), sizeof size);
    if (size > 0) waiting.datagram_bytes = std::min(waiting.bytes, static_cast<std::size_t>(size));
  }
  waiting.head_bytes = std::min(waiting.datagram_bytes, waiting.storage.size());
  return waiting;
}

std::size_t receive_scattered(int fd, std::span<iovec> pieces) {
  msghdr header{};
  header.msg_iov = pieces.data();
  header.msg_iovlen = pieces.size();
  const ssize_t length = ::recvmsg(fd, &header, MSG_DONTWAIT);
  return length > 0 ? static_cast<std::size_t>(length) : 0;
}

}  // namespace tutti::device::ip
