#include "device/ip/address_record.hpp"

#include <cstring>

#include "base/error.hpp"

namespace tutti::device::ip {

namespace {

// Byte offsets in the fixed part of the record. The socket address follows the fixed part.
constexpr std::size_t kChunkAt = 0;
constexpr std::size_t kIncarnationAt = 4;
constexpr std::size_t kWindowAt = 8;
constexpr std::size_t kDatagramAt = 16;
constexpr std::size_t kMulticastAt = 20;
constexpr std::size_t kSlotPortAt = 24;
constexpr std::size_t kFixedBytes = 26;

template <typename Value>
Value load(std::span<const std::byte> bytes, std::size_t at) {
  Value value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

template <typename Value>
void store(std::vector<std::byte>& bytes, std::size_t at, Value value) {
  std::memcpy(bytes.data() + at, &value, sizeof value);
}

bool is_payload(std::uint32_t bytes) { return bytes >= kChunkGranule && bytes <= kMaxUdpPayload; }

}  // namespace

std::vector<std::byte> encode(const AddressRecord& record) {
  std::vector<std::byte> bytes(kFixedBytes);
  store(bytes, kChunkAt, record.chunk_bytes);
  store(bytes, kIncarnationAt, record.incarnation);
  store(bytes, kWindowAt, record.receive_window_bytes);
  store(bytes, kDatagramAt, record.datagram_bytes);
  store(bytes, kMulticastAt, static_cast<std::uint32_t>(record.multicast));
  store(bytes, kSlotPortAt, record.slot_port);
  const std::vector<std::byte> socket = record.socket.encode();
  bytes.insert(bytes.end(), socket.begin(), socket.end());
  return bytes;
}

Result<AddressRecord> decode_address_record(std::span<const std::byte> bytes) {
  if (bytes.size() < kFixedBytes) {
    return failure(
        Code::invalid_argument,
        "an endpoint's address of {} bytes is too short: use one version of Tutti on all ranks",
        bytes.size());
  }
  auto socket = SocketAddress::decode(bytes.subspan(kFixedBytes));
  if (!socket) return socket.status();
  AddressRecord record;
  record.chunk_bytes = load<std::uint32_t>(bytes, kChunkAt);
  record.incarnation = load<std::uint32_t>(bytes, kIncarnationAt);
  record.receive_window_bytes = load<std::uint64_t>(bytes, kWindowAt);
  record.datagram_bytes = load<std::uint32_t>(bytes, kDatagramAt);
  const auto multicast = load<std::uint32_t>(bytes, kMulticastAt);
  record.slot_port = load<std::uint16_t>(bytes, kSlotPortAt);
  record.socket = *socket;
  if (!is_payload(record.chunk_bytes)) {
    return failure(
        Code::invalid_argument,
        "an endpoint's address announces chunks of {} bytes instead of {} to {} bytes: use "
        "one version of Tutti on all ranks",
        record.chunk_bytes, kChunkGranule, kMaxUdpPayload);
  }
  if (!is_payload(record.datagram_bytes)) {
    return failure(
        Code::invalid_argument,
        "an endpoint's address announces datagrams of {} bytes instead of {} to {} bytes: "
        "use one version of Tutti on all ranks",
        record.datagram_bytes, kChunkGranule, kMaxUdpPayload);
  }
  if (record.receive_window_bytes < kChunkGranule) {
    return failure(
        Code::invalid_argument,
        "an endpoint's address announces a receive window of {} bytes instead of {} or more: use "
        "one version of Tutti on all ranks",
        record.receive_window_bytes, kChunkGranule);
  }
  if (multicast > static_cast<std::uint32_t>(Multicast::uc)) {
    return failure(
        Code::invalid_argument,
        "an endpoint's address announces the unknown kind {} of multicast: use one version "
        "of Tutti on all ranks",
        multicast);
  }
  record.multicast = static_cast<Multicast>(multicast);
  return record;
}

}  // namespace tutti::device::ip
