#include "device/ip/datagram_sender.hpp"

#include <netinet/udp.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.hpp"

namespace tutti::device::ip {

namespace {

// Payload bytes of the largest UDP datagram over IPv4.
constexpr std::size_t kMaxMessageBytes = 65507;

/// True for errors that mean a full send queue; the caller retries when the socket is writable.
bool transient(int error) {
  return error == EAGAIN || error == EWOULDBLOCK || error == ENOBUFS || error == ENOMEM ||
         error == EINTR;
}

/// True for an error caused by an ICMP answer to an earlier datagram, or by a local packet filter.
/// The datagram counts as lost, and the layers above recover it.
bool lost_on_the_way(int error) { return error == ECONNREFUSED || error == EPERM; }

Status send_failure(int error) {
  if (error == ENETUNREACH || error == ENETDOWN || error == EHOSTUNREACH) {
    return system_failure(
        error,
        "a datagram cannot be sent (check the route; for multicast, run ip route add "
        "224.0.0.0/4 dev <interface>)");
  }
  return system_failure(error, "sending a datagram");
}

}  // namespace

std::size_t DatagramSender::whole_batch(std::size_t datagram_bytes) {
  const std::size_t of_a_message =
      std::clamp<std::size_t>(kMaxMessageBytes / datagram_bytes, 1, kMaxBatch);
  return kMaxBatch / of_a_message * of_a_message;
}

bool DatagramSender::fits(std::size_t datagram_bytes) const {
  if (count_ == 0) return true;
  if (count_ == kMaxBatch || bytes_ + datagram_bytes > kMaxMessageBytes) return false;
  return datagram_bytes <= sizes_[0] && sizes_[count_ - 1] == sizes_[0];
}

bool DatagramSender::has_room(std::size_t datagrams, std::size_t bytes) const {
  return count_ + datagrams <= kMaxBatch && bytes_ + bytes <= kMaxMessageBytes;
}

void DatagramSender::add(std::size_t header_bytes, std::span<const std::byte> payload) {
  vectors_[2 * count_] = {header_slot(), header_bytes};
  vectors_[2 * count_ + 1] = {const_cast<std::byte*>(payload.data()), payload.size()};
  sizes_[count_] = header_bytes + payload.size();
  bytes_ += sizes_[count_];
  ++count_;
}

Result<std::size_t> DatagramSender::flush(int fd, const SocketAddress* to) {
  if (count_ == 0) return std::size_t{0};
  auto sent = offload_ && count_ > 1 ? send_segmented(fd, to) : send_each(fd, to);
  count_ = 0;
  bytes_ = 0;
  return sent;
}

msghdr DatagramSender::message(std::size_t first, std::size_t datagrams, const SocketAddress* to) {
  msghdr header{};
  if (to != nullptr) {
    header.msg_name = const_cast<sockaddr*>(to->get());
    header.msg_namelen = to->length();
  }
  header.msg_iov = vectors_.data() + 2 * first;
  header.msg_iovlen = 2 * datagrams;
  return header;
}

Result<std::size_t> DatagramSender::send_segmented(int fd, const SocketAddress* to) {
  msghdr header = message(0, count_, to);
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(std::uint16_t))> control{};
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  cmsghdr* segment = CMSG_FIRSTHDR(&header);
  segment->cmsg_level = SOL_UDP;
  segment->cmsg_type = UDP_SEGMENT;
  segment->cmsg_len = CMSG_LEN(sizeof(std::uint16_t));
  const auto size = static_cast<std::uint16_t>(sizes_[0]);
  std::memcpy(CMSG_DATA(segment), &size, sizeof size);
  ++calls_;
  if (::sendmsg(fd, &header, MSG_DONTWAIT) >= 0) {
    ++messages_;
    return count_;
  }
  if (transient(errno)) return std::size_t{0};
  if (lost_on_the_way(errno)) return count_;
  if (errno == EIO || errno == EINVAL || errno == EOPNOTSUPP || errno == EMSGSIZE) {
    // The network path has no checksum or segmentation offload, so datagrams are sent one at a time
    // from now on.
    offload_ = false;
    return send_each(fd, to);
  }
  return send_failure(errno);
}

/// Sends a single datagram, the common case, without the 4 KiB of message headers that a batch
/// needs.
Result<std::size_t> DatagramSender::send_one(int fd, const SocketAddress* to) {
  const msghdr header = message(0, 1, to);
  ++calls_;
  if (::sendmsg(fd, &header, MSG_DONTWAIT) >= 0) {
    ++messages_;
    return std::size_t{1};
  }
  if (transient(errno)) return std::size_t{0};
  if (lost_on_the_way(errno)) return std::size_t{1};
  return send_failure(errno);
}

Result<std::size_t> DatagramSender::send_each(int fd, const SocketAddress* to) {
  if (count_ == 1) return send_one(fd, to);
  std::array<mmsghdr, kMaxBatch> messages{};
  for (std::size_t i = 0; i < count_; ++i) messages[i].msg_hdr = message(i, 1, to);
  ++calls_;
  const int sent = ::sendmmsg(fd, messages.data(), static_cast<unsigned>(count_), MSG_DONTWAIT);
  if (sent >= 0) {
    messages_ += static_cast<std::uint64_t>(sent);
    return static_cast<std::size_t>(sent);
  }
  if (transient(errno)) return std::size_t{0};
  if (lost_on_the_way(errno)) return count_;
  return send_failure(errno);
}

}  // namespace tutti::device::ip
