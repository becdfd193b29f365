#include "device/ip/datagram_batch.hpp"

#include <netinet/udp.h>

#include <algorithm>
#include <cstring>

namespace tutti::device::ip {

DatagramBatch::DatagramBatch(std::size_t slots)
    : storage_(std::make_unique_for_overwrite<std::byte[]>(slots * kSlotBytes)),
      control_(std::make_unique<std::byte[]>(slots * kControlBytes)),
      messages_(slots),
      vectors_(slots),
      senders_(slots) {
  for (std::size_t i = 0; i < slots; ++i) {
    vectors_[i] = {storage_.get() + i * kSlotBytes, kSlotBytes};
    prepare(i);
  }
}

void DatagramBatch::prepare(std::size_t slot) {
  msghdr& header = messages_[slot].msg_hdr;
  header = {};
  header.msg_iov = &vectors_[slot];
  header.msg_iovlen = 1;
  header.msg_name = senders_[slot].get();
  header.msg_namelen = SocketAddress::kMaxBytes;
  header.msg_control = control_.get() + slot * kControlBytes;
  header.msg_controllen = kControlBytes;
}

std::size_t DatagramBatch::receive(int fd) {
  for (std::size_t i = 0; i < filled_; ++i) prepare(i);
  slot_ = offset_ = 0;
  ++calls_;
  const int got = ::recvmmsg(fd, messages_.data(), static_cast<unsigned>(messages_.size()),
                             MSG_DONTWAIT, nullptr);
  filled_ = got > 0 ? static_cast<std::size_t>(got) : 0;
  if (filled_ > 0) segment_ = segment_bytes(messages_[0].msg_hdr);
  return filled_;
}

std::size_t DatagramBatch::segment_bytes(const msghdr& header) const {
  for (cmsghdr* control = CMSG_FIRSTHDR(&header); control != nullptr;
       control = CMSG_NXTHDR(const_cast<msghdr*>(&header), control)) {
    if (control->cmsg_level != SOL_UDP || control->cmsg_type != UDP_GRO) continue;
    int size = 0;
    std::memcpy(&size, CMSG_DATA(control), sizeof size);
    return size > 0 ? static_cast<std::size_t>(size) : kSlotBytes;
  }
  return kSlotBytes;
}

void DatagramBatch::leave_message() {
  ++slot_;
  offset_ = 0;
  if (slot_ < filled_) segment_ = segment_bytes(messages_[slot_].msg_hdr);
}

std::optional<std::span<const std::byte>> DatagramBatch::next() {
  if (slot_ == filled_) return std::nullopt;
  taken_from_ = slot_;
  const std::size_t length = messages_[slot_].msg_len;
  const std::byte* const at = storage_.get() + slot_ * kSlotBytes + offset_;
  const std::size_t size = std::min(segment_, length - offset_);
  offset_ += size;
  if (offset_ >= length) leave_message();
  return std::span(at, size);
}

bool enable_receive_offload(int fd) {
  const int on = 1;
  return ::setsockopt(fd, SOL_UDP, UDP_GRO, &on, sizeof on) == 0;
}

bool probe_send_offload(int fd) {
  const int size = 1400;
  const int off = 0;
  return ::setsockopt(fd, SOL_UDP, UDP_SEGMENT, &size, sizeof size) == 0 &&
         ::setsockopt(fd, SOL_UDP, UDP_SEGMENT, &off, sizeof off) == 0;
}

}  // namespace tutti::device::ip
